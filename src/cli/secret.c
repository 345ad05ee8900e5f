/* cli/secret.c - passwords stay out of the process list; and asking for one. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Leaves one x, so that one sees that a password was given, not how long it is. */
static void overwrite(char *secret, size_t length)
{
    if (length == 0)
        return;
    explicit_bzero(secret, length);
    secret[0] = 'x';
}

/* The p in "-pX" or "-vpX": what follows is the password. */
static void hide_letters(char *letters)
{
    for (; *letters && !strchr("hPuSDwE", *letters); letters++) {
        if (*letters == 'p') {
            overwrite(letters + 1, strlen(letters + 1));
            return;
        }
    }
}

/* user:PASSWORD@host. From the first colon to the last @: rather too much than too little,
 * where the password has characters that should have been encoded. The rest moves up. */
static void hide_in_url(char *authority)
{
    char *colon = strchr(authority, ':');
    char *at = strrchr(authority, '@');
    if (!colon || !at || at < colon)
        return;
    size_t rest = strlen(at);
    size_t length = (size_t)(at - colon);
    overwrite(colon + 1, length - 1);
    if (length > 2) {
        memmove(colon + 2, at, rest);
        explicit_bzero(colon + 2 + rest, length - 2);
    }
}

/* For free(); NULL: it has none. */
static char *url_without_password(const char *url)
{
    const char *authority = strstr(url, "://");
    const char *end = authority ? authority + 3 + strcspn(authority + 3, "/?") : NULL;
    const char *colon = authority ? strchr(authority + 3, ':') : NULL;
    const char *at = end;
    while (at && at > authority && *at != '@')
        at--;
    if (!colon || !at || at < colon)
        return NULL;
    char *without = cli_need(malloc(strlen(url) + 1));
    memcpy(without, url, (size_t)(colon - url));
    memcpy(without + (colon - url), at, strlen(at) + 1);
    return without;
}

void cli_secret_environment(void)
{
    const char *url = getenv("ROWLOCK_URL");
    char *without = url ? url_without_password(url) : NULL;
    unsetenv("MYSQL_PWD");
    if (without)
        setenv("ROWLOCK_URL", without, 1);
    free(without);
}

static void hide(char *argument)
{
    char *value = strchr(argument, '=');
    char *url = strstr(argument, "://");
    if (value && strncmp(argument, "--pa", 4) == 0) /* mistyped ones too */
        overwrite(value + 1, strlen(value + 1));
    else if (argument[0] == '-' && argument[1] != '-')
        hide_letters(argument + 1);
    else if (url)
        hide_in_url(url + 3);
}

char **cli_secret_arguments(int argc, char **argv)
{
    char **copy = cli_need(calloc((size_t)argc + 1, sizeof *copy));
    bool ours = true;
    for (int i = 0; i < argc; i++) {
        copy[i] = cli_need(strdup(argv[i]));
        ours = ours && strcmp(argv[i], "--") != 0;
        if (ours && i > 0)
            hide(argv[i]);
    }
    return copy;
}

/* ---------------------------------------------------------- asking for it */

static volatile sig_atomic_t interrupted_by;

static void remember(int signo)
{
    interrupted_by = signo;
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDING_SIGNALS = sizeof ending_signals / sizeof ending_signals[0] };

/* One line without its end. False: none came. */
static bool read_silently(int tty, char *line, size_t size)
{
    static const char prompt[] = "Enter password: ";
    struct termios saved;
    if (tcgetattr(tty, &saved) != 0)
        return false;
    struct termios silent = saved;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    silent.c_lflag |= ICANON | ISIG;
    if (tcsetattr(tty, TCSAFLUSH, &silent) != 0)
        return false;
    cli_write(tty, prompt, sizeof prompt - 1);
    ssize_t got = read(tty, line, size - 1);
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    tcsetattr(tty, TCSAFLUSH, &saved);
    cli_write(tty, "\n", 1);
    return got > 0;
}

/* A signal must not leave the terminal without echo: it is held back until the terminal
 * is as it was, then sent again. */
static bool ask(int tty, char *line, size_t size)
{
    struct sigaction before[ENDING_SIGNALS];
    struct sigaction action = {.sa_handler = remember};
    sigemptyset(&action.sa_mask);
    interrupted_by = 0;
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaction(ending_signals[i], &action, &before[i]);
    bool got = read_silently(tty, line, size);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaction(ending_signals[i], &before[i], NULL);
    if (interrupted_by)
        raise(interrupted_by);
    return got;
}

bool cli_password(cli_context *context)
{
    static char password[512];
    if (!context->ask_password)
        return true;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return !cli_usage(
            "-p asks for the password, but there is no terminal; an option file can hold it");
    bool got = ask(tty, password, sizeof password);
    close(tty);
    if (!got)
        return !cli_usage("no password was given");
    context->client.password = password;
    context->ask_password = false;
    return true;
}
