/* cli/cmd_alive.c - alive: tells `rowlock run --alive` that its command is still working. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

/* The program may have closed the descriptor and opened another file under its number: writes only
 * to a pipe. */
static bool is_pipe(int fd)
{
    struct stat what;
    return fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode);
}

/* A full pipe needs no further byte: the supervisor has not read the earlier ones yet. */
static bool is_full(int fd)
{
    struct pollfd pipe = {.fd = fd, .events = POLLOUT};
    return poll(&pipe, 1, 0) == 0;
}

static int show_life(void *into)
{
    const char *text = getenv("ROWLOCK_ALIVE_FD");
    uint64_t fd;
    (void)into;
    if (!text)
        return cli_usage("ROWLOCK_ALIVE_FD is not set: 'rowlock alive' is for a command, and what "
                         "it starts, under 'rowlock run --alive'");
    if (!cli_number(text, 0, INT32_MAX, &fd))
        return cli_usage("ROWLOCK_ALIVE_FD is not a number: '%s'", text);
    if (!is_pipe((int)fd))
        return cli_usage(
            "descriptor %s (ROWLOCK_ALIVE_FD) is closed here, or is no pipe: a program "
            "in between has closed it",
            text);
    if (is_full((int)fd) || write((int)fd, "\n", 1) == 1)
        return 0;
    if (errno == EPIPE)
        cli_say("the 'rowlock run --alive' that this belongs to has ended: the lock is not held");
    else
        cli_say("cannot write to descriptor %s (ROWLOCK_ALIVE_FD): %s", text, strerror(errno));
    return rowlock_status_exit(errno == EPIPE ? ROWLOCK_LOST : ROWLOCK_SYSTEM);
}

const cli_command cli_alive = {
    .help = cli_help_alive,
    .options = (const cli_option[]){{0}},
    .into = &(cli_context){.json = false},
    .asks_no_server = true,
    .of_quorums = true,
    .run = show_life,
};
