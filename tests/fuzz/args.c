/*
 * The command's arguments, one on a line: `rowlock run` and a command whose options stand between
 * its operands. No argument is lost or made up, the library accepts what the command accepts, each
 * error message is one clean line, and no password stays where every user can read it.
 *
 * The output of the command (write() and fputs(), renamed in CMakeLists.txt) is caught here.
 */
#include "cli/cli.h"

#include <limits.h>
#include <unistd.h>

#include "api/options.h"
#include "base/url.h"
#include "cli/run.h"
#include "fuzz.h"

enum { MOST = 64 }; /* arguments */

static unsigned lines;
static unsigned helps;

/* In place of unistd.h's: say.c writes a line by one call. */
ssize_t write(int fd, const void *bytes, size_t length)
{
    char *line = fuzz_text(bytes, length);
    require(fd == STDERR_FILENO);
    require(length <= 4096 && strlen(line) == length && line[length - 1] == '\n');
    line[length - 1] = '\0';
    require(strncmp(line, "rowlock: ", 9) == 0 && line[9]);
    require(fuzz_is_clean(line));
    free(line);
    lines++;
    return (ssize_t)length;
}

int fputs(const char *text, FILE *file)
{
    require(file == stdout && strncmp(text, "Usage: ", 7) == 0);
    helps++;
    return 0;
}

/* The place in the original arguments that `value` has in ours; NULL if it points into none. */
static const char *original(const char *value, int argc, char **ours, char **originals)
{
    for (int i = 0; i < argc; i++)
        if (value >= ours[i] && value <= ours[i] + strlen(ours[i]))
            return originals[i] + (value - ours[i]);
    return NULL;
}

static void check_password(const char *password, int argc, char **ours, char **originals)
{
    const char *left = password ? original(password, argc, ours, originals) : NULL;
    /* A password of "x" or "" needs no hiding. */
    if (left && password[0] && strcmp(password, "x") != 0)
        require(strcmp(left, password) != 0);
}

/*
 * True if the text has the password once, not encoded; short ones may be there by chance and do not
 * count.
 */
static bool is_plain_in(const char *password, const char *text)
{
    const char *found = password && strlen(password) > 3 ? strstr(text, password) : NULL;
    return found && found > text && found[-1] == ':' && !strstr(found + 1, password);
}

static void check_url(const char *text, int argc, char **ours, char **originals)
{
    rl_url url;
    const char *left = text ? original(text, argc, ours, originals) : NULL;
    if (!left)
        return;
    rowlock_status status = rl_url_parse(text, &url, NULL);
    if (status == ROWLOCK_OK && is_plain_in(url.password, text))
        require(!strstr(left, url.password));
    rl_url_free(&url);
}

/* True if there is a "--": what follows is another program's. (It may also be an option's
 * value.) */
static bool is_marked(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return true;
    return false;
}

static void check_run_bounds(const run_options *asked, int argc, char **argv)
{
    rowlock_acquire_options checked;
    require(asked->name && asked->command && asked->command[0] && asked->command[0][0]);
    require(asked->not_got <= 255);
    require(asked->acquire.wait_ms >= ROWLOCK_WAIT_FOREVER);
    /* The command to run is the end of argv. */
    char **end = asked->command;
    while (*end)
        end++;
    require(end == argv + argc && asked->command > argv + 1);
    if (asked->acquire.max_hold_ms <= INT64_MAX / 2000)
        require(rl_options_acquire(&asked->acquire, &checked, NULL) == ROWLOCK_OK);
}

/* In place of the text in docs/help. */
const char cli_help_run[] = "Usage: \n";

/* In place of cmd_run.c's function. */
int run_options_run(void *into)
{
    (void)into;
    abort();
}

static void check_run(int argc, char **argv, char **originals)
{
    static run_options defaults;
    static bool is_known;
    run_options *asked = cli_run.into;
    int status = -1;
    if (!is_known)
        defaults = *asked;
    is_known = true;
    *asked = defaults;
    lines = helps = 0;
    bool marked = is_marked(argc, argv);
    if (cli_parse(&cli_run, argc, argv, &status)) {
        require(lines == 0 && helps == 0);
        check_run_bounds(asked, argc, argv);
    } else {
        require(status == 0 ? helps == 1 && lines == 0 : status == CLI_EXIT_USAGE && lines > 0);
    }
    if (marked)
        return;
    check_password(asked->context.client.password, argc, argv, originals);
    for (unsigned i = 0; i < asked->context.url_count; i++)
        check_url(asked->context.urls[i], argc, argv, originals);
}

typedef struct some {
    cli_context context;
    bool quiet;
    uint64_t limit;
    int64_t since;
} some;

/* Takes options, with a value or without one. */
static bool take_all(void *into, const char *value)
{
    (void)into;
    (void)value;
    return true;
}

static const cli_option some_options[] = {
    {'q', "quiet", CLI_FLAG, CLI_AT(some, quiet)},
    {'n', "limit", CLI_NUMBER, CLI_AT(some, limit), .least = 5, .most = 100},
    {0, "since", CLI_DURATION, CLI_AT(some, since), .word = "ever"},
    {0, "all", CLI_OWN_ATTACHED, .take = take_all},
    {0},
};

static bool is_there(const char *argument, char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == argument)
            return true;
    return false;
}

static void check_operands(int argc, char **argv)
{
    some into = {.limit = 5};
    const cli_command command = {
        .help = "Usage: \n", .options = some_options, .into = &into, .most = INT_MAX};
    char *were[MOST + 1];
    memcpy(were, argv, sizeof(char *) * ((size_t)argc + 1));
    lines = helps = 0;
    int status = -1;
    if (cli_parse(&command, argc, argv, &status))
        require(lines == 0 && helps == 0);
    else
        require(status == 0 ? helps == 1 : status == CLI_EXIT_USAGE && lines > 0);
    require(into.limit >= 5 && into.limit <= 100 && into.since >= -1);
    char **operands = into.context.operands;
    int count = into.context.operand_count;
    require(count >= 0 && count < argc);
    /* The values are in the order in which they were given; argv has only changed its order. */
    int at = 1;
    for (int i = 0; i < count; i++) {
        while (at < argc && were[at] != operands[i])
            at++;
        require(at < argc);
    }
    for (int i = 0; i < argc; i++)
        require(is_there(were[i], argv, argc));
    require(argv[argc] == NULL);
}

static int split(char *text, char **argv)
{
    int argc = 0;
    argv[argc++] = strdup("run");
    while (text && *text && argc < MOST)
        argv[argc++] = strdup(strsep(&text, "\n"));
    argv[argc] = NULL;
    return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *originals[MOST + 1];
    char *text = fuzz_text(data, size);
    int argc = split(text, originals);
    /* `ours` may change its order; a second list keeps what has to be freed. */
    char **ours = cli_secret_arguments(argc, originals);
    char *owned[MOST + 1];
    memcpy(owned, ours, sizeof(char *) * ((size_t)argc + 1));
    cli_text_start();
    check_run(argc, ours, originals);
    memcpy(ours, owned, sizeof(char *) * ((size_t)argc + 1));
    check_operands(argc, ours);
    for (int i = 0; i < argc; i++) {
        free(owned[i]);
        free(originals[i]);
    }
    free(ours);
    free(text);
    return 0;
}
