/* cli/say.c - lines on stderr, and the check that stdout was written. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "table.h"

static const char *command_name = "";
static rowlock_error failure;
static bool says_json; /* set before there is a second thread */

void cli_say_json(void)
{
    says_json = true;
}

bool cli_says_json(void)
{
    return says_json;
}

void cli_set_command(const char *name)
{
    command_name = name;
}

void cli_write(int fd, const void *bytes, size_t length)
{
    ssize_t ignored = write(fd, bytes, length);
    (void)ignored;
}

/* One write for the whole line, so that lines of several processes do not mix. */
static void write_line(const char *message)
{
    char line[4096] = "rowlock: ";
    size_t start = strlen(line);
    cli_printable_into(line + start, sizeof line - start - 1, message);
    size_t length = strlen(line);
    line[length++] = '\n';
    cli_write(STDERR_FILENO, line, length);
}

static void write_json(const char *event, const cli_fact *facts, const char *message)
{
    struct timespec now;
    struct tm parts;
    char second[32];
    char when[64];
    size_t length;
    json_object *object = cli_json_new();
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(second, sizeof second, "%F %T", gmtime_r(&now.tv_sec, &parts));
    snprintf(when, sizeof when, "%s.%06ld", second, now.tv_nsec / 1000);
    cli_json_time(object, "time", when);
    cli_json_text(object, "event", event);
    for (; facts && facts->key; facts++)
        if (facts->text)
            cli_json_text(object, facts->key, facts->text);
        else
            cli_json_count(object, facts->key, (uint64_t)facts->number);
    cli_json_text(object, "message", message);
    char *line = cli_json_line(object, &length);
    cli_write(STDERR_FILENO, line, length);
    free(line);
}

static void say(const char *event, const cli_fact *facts, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void say(const char *event, const cli_fact *facts, const char *format, va_list args)
{
    char *message = NULL;
    if (vasprintf(&message, format, args) < 0)
        message = NULL;
    if (says_json && message)
        write_json(event, facts, message);
    else
        write_line(message ? message : "out of memory");
    free(message);
}

void cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("message", NULL, format, args);
    va_end(args);
}

void cli_say_event(const char *event, const cli_fact *facts, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(event, facts, format, args);
    va_end(args);
}

void cli_line(const char *format, ...)
{
    char *line = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&line, format, args) < 0)
        cli_out_of_memory();
    va_end(args);
    char *printable = cli_need(cli_printable(line));
    puts(printable);
    free(printable);
    free(line);
}

void cli_lines(FILE *out, const char *text)
{
    for (size_t size; *text; text += size + (text[size] == '\n')) {
        size = strcspn(text, "\n");
        char *line = cli_need(strndup(text, size));
        char *printable = cli_need(cli_printable(line));
        fprintf(out, "%s\n", printable);
        free(printable);
        free(line);
    }
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure.message, sizeof failure.message, format, args);
    va_end(args);
    failure.status = ROWLOCK_INVALID;
    cli_say("%s", failure.message);
    if (*command_name)
        cli_say("try 'rowlock %s --help'", command_name);
    else
        cli_say("try 'rowlock --help'");
    return CLI_EXIT_USAGE;
}

const rowlock_error *cli_failure(void)
{
    return &failure;
}

/* What the command adds where it could not connect: the option that helps. */
static const char *which_option(const rowlock_error *err)
{
    const unsigned number = err->server_errno;
    if (strcmp(err->statement, "connect") != 0 || strstr(err->message, "may not use it"))
        return "";
    if (number == 1045 && strstr(err->message, "using password: NO"))
        return "; -p asks for a password";
    if (number == 2005)
        return "; say where the server is (-h, ROWLOCK_URL: 'rowlock help connection')";
    return number == 2002 || number == 2003
               ? "; start the server, or say where one is (-S, -h, ROWLOCK_URL: 'rowlock help "
                 "connection')"
               : "";
}

int cli_fail(const rowlock_error *err)
{
    const cli_fact facts[] = {{"status", rowlock_status_name(err->status), 0},
                              {"exit_status", NULL, rowlock_status_exit(err->status)},
                              {0}};
    failure = *err;
    cli_say_event("error", facts, "%s%s",
                  err->message[0] ? err->message : rowlock_status_text(err->status),
                  which_option(err));
    return rowlock_status_exit(err->status);
}

void cli_log(void *data, rowlock_log_level level, const char *line)
{
    if (level <= (rowlock_log_level)(uintptr_t)data)
        cli_say_event("log", NULL, "%s", line);
}

/* A write failed earlier, when the buffer was full, and its errno is lost. Output is missing in any
 * case, so one further byte is written to get the errno. */
static int why_output_failed(void)
{
    errno = 0;
    clearerr(stdout);
    if (putchar('\n') != EOF && fflush(stdout) == 0)
        return EIO;
    return errno ? errno : EIO;
}

int cli_flush(int status)
{
    static bool told;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    /* A reader that has closed the pipe needs no message. */
    int error = errno ? errno : why_output_failed();
    if (error != EPIPE && !told)
        cli_say("cannot write the output: %s", strerror(error));
    told = true;
    return CLI_EXIT_OUTPUT;
}

void cli_catch_end(void (*on_end)(int signo))
{
    struct sigaction action = {.sa_handler = on_end, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void cli_out_of_memory(void)
{
    says_json = false; /* JSON would take memory */
    cli_say("out of memory");
    exit(rowlock_status_exit(ROWLOCK_SYSTEM));
}

void *cli_need(void *memory)
{
    if (!memory)
        cli_out_of_memory();
    return memory;
}
