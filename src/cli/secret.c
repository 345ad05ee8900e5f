/* cli/secret.c - hides passwords from the process list, and asks for one. */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Leaves one x, which shows that a password was given, but not its length. */
static void overwrite(char *secret, size_t length)
{
    if (length == 0)
        return;
    explicit_bzero(secret, length);
    secret[0] = 'x';
}

/* In "-pX" or "-vpX", X is the password. */
static void hide_letters(char *letters)
{
    for (; *letters && !strchr("hPuSDwE", *letters); letters++) {
        if (*letters == 'p') {
            overwrite(letters + 1, strlen(letters + 1));
            return;
        }
    }
}

/* Removes the password of user:PASSWORD@host. It takes everything from the first colon to the last
 * @, in case the password has characters that should have been encoded. */
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

/* Copies the part of a URL after "://", up to `end`. Returns the end of the copy in `out`. */
static char *put_without_password(char *out, const char *from, const char *end)
{
    const char *path = from + strcspn(from, "/?");
    const size_t authority = (size_t)((path < end ? path : end) - from);
    const char *colon = memchr(from, ':', authority);
    const char *at = memrchr(from, '@', authority);
    if (colon && at && colon < at) {
        out = mempcpy(out, from, (size_t)(colon - from));
        from = at;
    }
    return mempcpy(out, from, (size_t)(end - from));
}

/* A copy (free() it) of a text with any number of URLs. */
static char *without_passwords(const char *text)
{
    char *whole = cli_need(calloc(1, strlen(text) + 1));
    const char *next = strstr(text, "://");
    char *out = mempcpy(whole, text, next ? (size_t)(next - text) : strlen(text));
    while (next) {
        const char *from = next + strlen("://");
        next = strstr(from, "://");
        out = mempcpy(out, "://", strlen("://"));
        out = put_without_password(out, from, next ? next : from + strlen(from));
    }
    return whole;
}

void cli_secret_environment(void)
{
    static const char *const holders[] = {"ROWLOCK_URL", "ROWLOCK_URLS"};
    unsetenv("MYSQL_PWD");
    for (size_t i = 0; i < sizeof holders / sizeof holders[0]; i++) {
        const char *text = getenv(holders[i]);
        char *without = text ? without_passwords(text) : NULL;
        if (without)
            setenv(holders[i], without, 1);
        free(without);
    }
}

static void hide(char *argument)
{
    char *value = strchr(argument, '=');
    char *url = strstr(argument, "://");
    if (value && strncmp(argument, "--pa", 4) == 0) /* also if it is mistyped */
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

/* ---------------------------------------------------------- asking for a password */

static volatile sig_atomic_t interrupted_by;

static void remember(int signo)
{
    interrupted_by = signo;
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDING_SIGNALS = sizeof ending_signals / sizeof ending_signals[0] };

/* Reads one line, without its end. False: there was none. */
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

/* Holds a signal back until the echo is on again, then sends it again, so that it does not leave
 * the terminal without echo. */
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
