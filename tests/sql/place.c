#include "place.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MASKS_MAX = 20 };

typedef struct mask {
    regex_t regex;
    char becomes[100];
} mask;

static MYSQL *admin;
static bool is_mysql;
static char folder[200]; /* of the shells' `rowlock` */
static party parties[PARTIES_MAX];
static size_t party_count;
static char users[USERS_MAX][NAME_MAX_BYTES];
static size_t user_count;
static mask masks[MASKS_MAX];
static size_t mask_count;

/* ---------------------------------------------------------------------- begin and end */

MYSQL *place_admin(void)
{
    return admin;
}

bool place_is_mysql(void)
{
    return is_mysql;
}

/* The shells' `rowlock`: the built command, on this server and this schema. */
static void make_command(void)
{
    char path[300];
    const char *tmp = getenv("TMPDIR");
    const char *command = getenv("ROWLOCK");
    snprintf(folder, sizeof folder, "%s/sql.XXXXXX", tmp ? tmp : "/tmp");
    if (!command || !mkdtemp(folder)) {
        fprintf(stderr, "set ROWLOCK to the command, TMPDIR to a folder\n");
        exit(2);
    }
    snprintf(path, sizeof path, "%s/rowlock", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "#!/bin/sh\nexec '%s' --no-defaults -S '%s' -u \"${AS:-root}\" -D '%s' \"$@\"\n",
            command, ts_socket(), ts_schema());
    fclose(out);
    chmod(path, 0700);
    char *paths = NULL;
    assert_true(asprintf(&paths, "%s:%s", folder, getenv("PATH")) > 0);
    setenv("PATH", paths, 1);
    free(paths);
    unsetenv("ROWLOCK_URL");
    unsetenv("MYSQL_PWD");
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("NO_COLOR", "1", 1);
}

void place_begin(void)
{
    ts_suite_begin(NULL);
    admin = ts_connect(ts_schema());
    is_mysql = ts_is_mysql(admin);
    make_command();
    /* Owners, points in time, spans of it, connections. */
    place_mask("/[0-9a-f]{26}-[0-9a-f]{32}/OWNER/");
    place_mask("/[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?/TIME/");
    place_mask("/[0-9]+[.][0-9]+ s/N s/");
    place_mask("/connection [0-9]+/connection N/");
    place_mask("/@localhost [0-9]+/@localhost N/");
}

static void drop_users(void)
{
    for (size_t i = 0; i < user_count; i++)
        ts_sql_try(admin, "DROP USER IF EXISTS '%s_%d'@'localhost'", users[i], (int)getpid());
}

void place_end(void)
{
    char path[300];
    for (size_t i = 0; i < party_count; i++)
        place_close(parties[i].name);
    drop_users();
    mysql_close(admin);
    ts_suite_end(NULL);
    snprintf(path, sizeof path, "%s/rowlock", folder);
    unlink(path);
    rmdir(folder);
    for (size_t i = 0; i < mask_count; i++)
        regfree(&masks[i].regex);
}

/* ------------------------------------------------------------------- users and parties */

void place_add_user(const char *name)
{
    assert_true(user_count < USERS_MAX);
    snprintf(users[user_count++], NAME_MAX_BYTES, "%s", name);
    ts_sql(admin, "DROP USER IF EXISTS '%s_%d'@'localhost'", name, (int)getpid());
    ts_sql(admin, "CREATE USER '%s_%d'@'localhost' IDENTIFIED BY ''", name, (int)getpid());
}

party *place_party(const char *name)
{
    for (size_t i = 0; i < party_count; i++)
        if (strcmp(parties[i].name, name) == 0)
            return &parties[i];
    assert_true(party_count < PARTIES_MAX);
    party *p = &parties[party_count++];
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}

void place_login(const char *name, const char *words)
{
    party *p = place_party(name);
    char user[NAME_MAX_BYTES] = "";
    place_close(name);
    p->user[0] = p->charset[0] = 0;
    if (sscanf(words, " as %15s charset=%31s", user, p->charset) < 1)
        sscanf(words, " charset=%31s", p->charset);
    if (*user && strcmp(user, "root") != 0)
        snprintf(p->user, sizeof p->user, "%s_%d", user, (int)getpid());
}

static bool on_server(uint64_t connection_id)
{
    return ts_sql_u64(admin, "SELECT COUNT(*) FROM %s.processlist WHERE id = %llu",
                      is_mysql ? "performance_schema" : "information_schema",
                      (unsigned long long)connection_id) > 0;
}

/* What it had on the server (named locks, rows) is free when this returns. */
void place_close(const char *name)
{
    party *p = place_party(name);
    if (p->mysql) {
        mysql_close(p->mysql);
        POLL_UNTIL(!on_server(p->connection_id), STEP_MOST_MS);
    }
    if (p->library) {
        session_end(p->library);
        free(p->library);
    }
    p->mysql = NULL;
    p->library = NULL;
    p->connection_id = 0;
}

/* Who has no right in the schema may not connect to it, and can only name it. */
static MYSQL *connect_party(const party *p)
{
    const char *user = *p->user ? p->user : "root";
    for (int with_schema = 1; with_schema >= 0; with_schema--) {
        MYSQL *mysql = mysql_init(NULL);
        assert_non_null(mysql);
        mysql_options(mysql, MYSQL_SET_CHARSET_NAME, *p->charset ? p->charset : "utf8mb4");
        if (mysql_real_connect(mysql, NULL, user, NULL, with_schema ? ts_schema() : NULL, 0,
                               ts_socket(), 0))
            return mysql;
        bool again = mysql_errno(mysql) == 1044;
        if (!again)
            fprintf(stderr, "%s cannot connect: %s\n", p->name, mysql_error(mysql));
        mysql_close(mysql);
        assert_true(again);
    }
    return NULL;
}

static MYSQL *party_mysql(party *p)
{
    if (!p->mysql) {
        p->mysql = connect_party(p);
        p->connection_id = mysql_thread_id(p->mysql);
    }
    return p->mysql;
}

/* ------------------------------------------------------------------------- filling in */

/* The value of what stands between the braces; false: nothing that is known. */
static bool value_of(const char *word, char *value, size_t size, size_t *length)
{
    unsigned byte = 0;
    char end = 0;
    char *dot = strstr(word, ".id");
    if (strcmp(word, "schema") == 0) {
        *length = (size_t)snprintf(value, size, "%s", ts_schema());
        return true;
    }
    if (strlen(word) == 3 && sscanf(word, "x%2x%c", &byte, &end) == 1) {
        value[0] = (char)byte;
        *length = 1;
        return true;
    }
    if (dot && !dot[3]) {
        *dot = 0;
        party *p = place_party(word);
        party_mysql(p);
        *length = (size_t)snprintf(value, size, "%llu", (unsigned long long)p->connection_id);
        return true;
    }
    for (size_t i = 0; i < user_count; i++)
        if (strcmp(users[i], word) == 0) {
            *length = (size_t)snprintf(value, size, "'%s_%d'@'localhost'", word, (int)getpid());
            return true;
        }
    return false;
}

char *place_fill_in(const char *text, size_t *length)
{
    char *filled = NULL;
    FILE *out = open_memstream(&filled, length);
    for (const char *at = text; *at;) {
        char word[40];
        char value[100];
        size_t value_length = 0;
        size_t inside = *at == '{' ? strcspn(at + 1, "{}") : 0;
        snprintf(word, sizeof word, "%.*s", (int)inside, at + 1);
        if (*at == '{' && at[1 + inside] == '}' && inside < sizeof word &&
            value_of(word, value, sizeof value, &value_length)) {
            fwrite(value, 1, value_length, out);
            at += inside + 2;
        } else {
            fputc(*at++, out);
        }
    }
    fclose(out);
    return filled;
}

/* ----------------------------------------------------------------------------- masking */

bool place_mask(const char *words)
{
    char expression[300];
    mask *m = &masks[mask_count];
    if (mask_count == MASKS_MAX || sscanf(words, "/%299[^/]/%99[^/]/", expression, m->becomes) != 2)
        return false;
    if (regcomp(&m->regex, expression, REG_EXTENDED) != 0)
        return false;
    mask_count++;
    return true;
}

static char *replaced(char *text, const regex_t *regex, const char *becomes)
{
    char *result = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&result, &size);
    const char *at = text;
    for (regmatch_t match; *at && regexec(regex, at, 1, &match, 0) == 0 && match.rm_eo > 0;
         at += match.rm_eo)
        fprintf(out, "%.*s%s", (int)match.rm_so, at, becomes);
    fputs(at, out);
    fclose(out);
    free(text);
    return result;
}

static char *without_names(char *text, const char *name, const char *becomes)
{
    regex_t regex;
    if (regcomp(&regex, name, REG_EXTENDED) != 0)
        abort();
    char *result = replaced(text, &regex, becomes);
    regfree(&regex);
    return result;
}

char *place_mask_text(const char *text)
{
    char *masked = without_names(strdup(text), ts_schema(), "{schema}");
    for (size_t i = 0; i < user_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_%d", users[i], (int)getpid());
        masked = without_names(masked, name, users[i]);
    }
    for (size_t i = 0; i < mask_count; i++)
        masked = replaced(masked, &masks[i].regex, masks[i].becomes);
    return masked;
}

/* ----------------------------------------------------------------- what comes out: SQL */

/* As it is where it is text, each byte as \xNN where it is not. */
static void tell_cell(FILE *out, const char *cell, unsigned long length)
{
    bool text = memchr(cell, 0, length) == NULL && mbstowcs(NULL, cell, 0) != (size_t)-1;
    for (unsigned long i = 0; i < length; i++) {
        unsigned char c = (unsigned char)cell[i];
        if (c == '\n' && text)
            fputs("\n    ", out);
        else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !text))
            fprintf(out, "\\x%02X", c);
        else
            fputc(c, out);
    }
}

static void tell_rows(FILE *out, MYSQL_RES *result)
{
    unsigned columns = mysql_num_fields(result);
    unsigned rows = 0;
    for (MYSQL_ROW row; (row = mysql_fetch_row(result)) != NULL; rows++) {
        const unsigned long *lengths = mysql_fetch_lengths(result);
        fputs("    ", out);
        for (unsigned i = 0; i < columns; i++) {
            fputs(i > 0 ? " | " : "", out);
            if (row[i])
                tell_cell(out, row[i], lengths[i]);
            else
                fputs("NULL", out);
        }
        fputc('\n', out);
    }
    if (rows == 0)
        fputs("    no rows\n", out);
}

/* The servers word their own errors each in its way; what a procedure says is ours. */
static void tell_error(FILE *out, MYSQL *mysql)
{
    unsigned number = mysql_errno(mysql);
    switch (number) {
    case 1053:
    case 1927:
    case 2006:
    case 2013:
    case 2055:
    case 4031:
        fputs("    ERROR the connection has ended\n", out);
        break;
    case 1644:
        fprintf(out, "    ERROR %s: ", mysql_sqlstate(mysql));
        tell_cell(out, mysql_error(mysql), strlen(mysql_error(mysql)));
        fputc('\n', out);
        break;
    default:
        fprintf(out, "    ERROR %s (%u)\n", mysql_sqlstate(mysql), number);
        break;
    }
}

static void run_sql(party *p, FILE *out)
{
    size_t length = 0;
    char *text = place_fill_in(p->command, &length);
    MYSQL *mysql = p->mysql;
    int status = mysql_real_query(mysql, text, length);
    unsigned results = 0;
    free(text);
    while (status == 0) {
        MYSQL_RES *result = mysql_store_result(mysql);
        if (result) {
            tell_rows(out, result);
            results++;
        } else if (mysql_field_count(mysql) > 0) {
            status = 1;
            break;
        }
        mysql_free_result(result);
        status = mysql_next_result(mysql);
    }
    if (status > 0)
        tell_error(out, mysql);
    else if (results == 0)
        fputs("    ok\n", out);
}

/* --------------------------------------------------- what comes out: shell and library */

static void tell_lines(FILE *out, FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, in)) >= 0;) {
        if (length > 0 && line[length - 1] == '\n')
            line[--length] = 0;
        fputs("    ", out);
        tell_cell(out, line, (unsigned long)length);
        fputc('\n', out);
    }
    free(line);
}

static void run_shell(const party *p, FILE *out)
{
    size_t length = 0;
    char *text = place_fill_in(p->command, &length);
    char *both = NULL;
    if (asprintf(&both, "exec 2>&1 </dev/null\n%s", text) < 0)
        abort();
    free(text);
    FILE *in = popen(both, "r"); /* one pipe for both, so that their order is kept */
    free(both);
    assert_non_null(in);
    tell_lines(out, in);
    int status = pclose(in);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(out, "    exit status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

static void start_library(party *p)
{
    if (p->library)
        return;
    session *s = calloc(1, sizeof *s);
    assert_non_null(s);
    snprintf(s->name, sizeof s->name, "%s", p->name);
    snprintf(s->user, sizeof s->user, "%s", ts_user(p->name, "race", "ALL", ts_schema()));
    ts_sql(admin, "GRANT %s ON *.* TO '%s'@'localhost'",
           is_mysql ? "CONNECTION_ADMIN" : "CONNECTION ADMIN", s->user);
    s->all = s;
    s->count = 1;
    session_start(s);
    p->library = s;
}

static void run_library(const party *p, FILE *out)
{
    race_step step = {.session = 0};
    char outcome[OUTCOME_MAX];
    snprintf(step.command, sizeof step.command, "%s", p->command);
    session_begin(p->library, &step);
    if (POLL_UNTIL(session_done(p->library, outcome), STEP_MOST_MS))
        fprintf(out, "    %s\n", outcome);
}

/* ------------------------------------------------------------------------- in a thread */

static void *run(void *arg)
{
    party *p = arg;
    size_t size = 0;
    FILE *out = open_memstream(&p->out, &size);
    if (p->kind == STEP_SQL)
        run_sql(p, out);
    else if (p->kind == STEP_SHELL)
        run_shell(p, out);
    else
        run_library(p, out);
    fclose(out);
    mysql_thread_end();
    atomic_store(&p->ended, true);
    return NULL;
}

void party_begin(party *p, step_kind kind, const char *command)
{
    p->kind = kind;
    p->command = strdup(command);
    p->out = NULL;
    p->running = true;
    atomic_store(&p->ended, false);
    /* What uses the admin's connection, or may fail the script, not in the thread. */
    if (kind == STEP_SQL)
        party_mysql(p);
    else if (kind == STEP_LIBRARY)
        start_library(p);
    assert_int_equal(0, pthread_create(&p->thread, NULL, run, p));
}

char *party_end(party *p)
{
    if (!POLL_UNTIL(atomic_load(&p->ended), STEP_MOST_MS))
        return NULL;
    pthread_join(p->thread, NULL);
    p->running = false;
    free(p->command);
    char *masked = place_mask_text(p->out);
    free(p->out);
    return masked;
}

/* ---------------------------------------------------------------------------- who waits */

uint64_t place_waiting(uint64_t id)
{
    char *rows = ts_lock_waits(admin);
    uint64_t waiting =
        ts_sql_u64(admin,
                   "SELECT COUNT(*) FROM %s.processlist"
                   " WHERE (state IN ('User lock', 'User sleep') OR state LIKE 'Waiting for %%lock'"
                   "        OR id IN (%s))"
                   "   AND (id = %llu OR %llu = 0 AND db = '%s')",
                   is_mysql ? "performance_schema" : "information_schema", rows,
                   (unsigned long long)id, (unsigned long long)id, ts_schema());
    free(rows);
    return waiting;
}
