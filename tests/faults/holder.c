/*
 * A holder as a process of its own, for the tests of death:
 *
 *   holder SOCKET SCHEMA NAME lease|pessimistic|latch|barrierN TTL_MS
 *
 * Says "READY" when it is connected, takes the lock (waiting up to a minute) and says "TOKEN n".
 * While it takes itself for the holder, it writes a beat every few milliseconds: an UPDATE of the
 * table `guard`, on a connection of its own, which is refused after a beat with a higher token. A
 * refused beat is recorded in the table `late`: two processes took themselves for the holder. On
 * stdin: pause, resume (the beats), check, fork, release, exit (without closing the client), quit.
 * When it is told of a loss it says "LOST".
 *
 * A member of a latch, or of a barrier of N, writes no beats: it is told done, or leave.
 */
#include <inttypes.h>
#include <mysql.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rowlock/rowlock.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"

static const char *socket_path;
static const char *schema;
static const char *lock_name;
static const char *kind;
static rowlock_acquire_options how;
static rowlock_client *client;
static MYSQL *beats;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char line[900];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[length] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)length + 1) < 0)
        _exit(3);
}

static bool connected(void)
{
    if (beats)
        return true;
    beats = mysql_init(NULL);
    if (mysql_real_connect(beats, NULL, "root", NULL, schema, 0, socket_path, 0))
        return true;
    mysql_close(beats);
    beats = NULL;
    return false;
}

static bool run(const char *text)
{
    if (!connected())
        return false;
    if (mysql_query(beats, text) == 0)
        return true;
    mysql_close(beats);
    beats = NULL;
    return false;
}

/* One statement on one row, so that the server orders the beats of all holders. */
static void beat(uint64_t token, const char *owner)
{
    char text[600];
    snprintf(text, sizeof text,
             "UPDATE guard SET token = %" PRIu64 ", owner = '%s', beats = beats + 1"
             " WHERE name = '%s' AND (token < %" PRIu64 " OR (token = %" PRIu64
             " AND owner = '%s'))",
             token, owner, lock_name, token, token, owner);
    if (!run(text) || mysql_affected_rows(beats) == 1)
        return;
    snprintf(text, sizeof text,
             "INSERT INTO late (name, token, owner, against) SELECT name, %" PRIu64
             ", '%s', token FROM guard WHERE name = '%s'",
             token, owner, lock_name);
    run(text);
}

static atomic_bool lost;

static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    (void)data;
    (void)hold;
    atomic_store(&lost, true);
    say("LOST %s", reason);
}

static void fork_child(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        /* The child keeps the inherited sockets, and does nothing. */
        for (;;)
            pause();
    }
    say("CHILD %d", (int)pid);
}

static rowlock_status take(rowlock_hold **hold, rowlock_error *err)
{
    if (strcmp(kind, "latch") == 0)
        return rowlock_latch_join(
            client, lock_name,
            &(rowlock_latch_join_options){.ttl_ms = how.ttl_ms, .on_lost = how.on_lost}, hold, err);
    if (strncmp(kind, "barrier", 7) == 0)
        return rowlock_barrier_enter(client, lock_name, (unsigned)atoi(kind + 7),
                                     &(rowlock_barrier_options){.wait_ms = how.wait_ms,
                                                                .ttl_ms = how.ttl_ms,
                                                                .on_lost = how.on_lost},
                                     hold, err);
    return rowlock_acquire(client, lock_name, &how, hold, err);
}

typedef struct situation {
    rowlock_hold *hold;
    bool paused;
    bool over;
} situation;

static void obey(situation *now, const char *word)
{
    if (strcmp(word, "done") == 0) {
        say("DONE %s", rowlock_status_name(rowlock_latch_done(now->hold, NULL)));
        now->hold = NULL;
    } else if (strcmp(word, "leave") == 0)
        say("LEAVE %s", rowlock_status_name(rowlock_barrier_leave(now->hold, 120000, NULL, NULL)));
    else if (strcmp(word, "pause") == 0)
        now->paused = true;
    else if (strcmp(word, "resume") == 0)
        now->paused = false;
    else if (strcmp(word, "check") == 0)
        say("CHECK %s", rowlock_status_name(rowlock_hold_check(now->hold)));
    else if (strcmp(word, "fork") == 0)
        fork_child();
    else if (strcmp(word, "exit") == 0)
        exit(0);
    else if (strcmp(word, "release") == 0) {
        rowlock_error err = {0};
        rowlock_status status = rowlock_release(now->hold, &err);
        say("RELEASE %s", rowlock_status_name(status));
        now->hold = NULL;
    } else
        now->over = true;
    if (strcmp(word, "pause") == 0)
        say("PAUSED");
}

/* Obeys one line of stdin, if there is one. */
static void listen_to(situation *now)
{
    static char line[64];
    static size_t length;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&in, 1, 2) == 1) {
        char c;
        if (read(STDIN_FILENO, &c, 1) != 1) {
            now->over = true;
            return;
        }
        if (c != '\n' && length < sizeof line - 1) {
            line[length++] = c;
            continue;
        }
        line[length] = 0;
        length = 0;
        obey(now, line);
        return;
    }
}

static int hold_it(void)
{
    rowlock_error err = {0};
    situation now = {0};
    how.on_lost = on_lost;
    rowlock_status status = take(&now.hold, &err);
    now.paused = *kind == 'b' || strcmp(kind, "latch") == 0;
    if (status != ROWLOCK_OK) {
        say("FAILED %s %s", rowlock_status_name(status), err.message);
        return 1;
    }
    say("TOKEN %" PRIu64, rowlock_hold_token(now.hold));
    while (!now.over) {
        if (now.hold && !now.paused && rowlock_hold_check(now.hold) == ROWLOCK_OK)
            beat(rowlock_hold_token(now.hold), rowlock_hold_owner(now.hold));
        listen_to(&now);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 64;
    socket_path = argv[1];
    schema = argv[2];
    lock_name = argv[3];
    kind = argv[4];
    how = (rowlock_acquire_options){.mode = strcmp(argv[4], "lease") == 0 ? ROWLOCK_OPTIMISTIC
                                                                          : ROWLOCK_PESSIMISTIC,
                                    .wait_ms = 300000,
                                    .ttl_ms = atoi(argv[5])};
    const rowlock_client_options options = {.socket = socket_path,
                                            .user = "root",
                                            .schema = schema,
                                            .connect_timeout_ms = 10000,
                                            .reconnect_ms = 120000};
    rowlock_error err;
    rowlock_status status = rowlock_client_open(&options, &client, &err);
    if (status != ROWLOCK_OK) {
        say("FAILED %s %s", rowlock_status_name(status), err.message);
        return 1;
    }
    say("READY");
    int result = hold_it();
    rowlock_client_close(client);
    if (beats)
        mysql_close(beats);
    return result;
}
