#include "migrate/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/name.h"
#include "base/text.h"
#include "rowlock/rowlock_migrate.h"

#define SQL_MODE_MOST 200
#define FILE_MOST     ((size_t)1 << 30) /* bytes */

static rowlock_status out_of_memory(rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
}

/* -------------------------------------------------------------------------- names */

/* "0007_more.sql", "V7__more.sql": 7. 0: not numbered so. */
static uint64_t number_of(const char *name)
{
    uint64_t number = 0;
    const char *at = name + (*name == 'V' || *name == 'v');
    const char *digits = at;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (unsigned)(*at - '0'), &number))
            return 0;
    bool named = at > digits && *at == '_' && at[1] && strcmp(at + 1, ".sql") != 0;
    return named ? number : 0;
}

/* "R__views.sql": its number is made from its name. */
static bool is_repeatable(const char *name)
{
    return (*name == 'R' || *name == 'r') && strncmp(name + 1, "__", 2) == 0 && name[3] &&
           name[3] != '.';
}

static uint64_t number_of_name(const char *name)
{
    rl_sha256 sum = rl_sha256_begin();
    char hex[65];
    rl_sha256_add(&sum, name, strlen(name));
    rl_sha256_hex(&sum, hex);
    hex[15] = '\0';
    return ROWLOCK_MIGRATIONS_REPEATABLE | strtoull(hex, NULL, 16);
}

static bool ends_in_sql(const char *name)
{
    size_t length = strlen(name);
    return *name != '.' && length > 4 && strcmp(name + length - 4, ".sql") == 0;
}

static rowlock_status add_file(rl_folder *folder, const char *name, rowlock_error *err)
{
    const bool repeatable = is_repeatable(name);
    uint64_t version = repeatable ? number_of_name(name) : number_of(name);
    if (!repeatable && version >= ROWLOCK_MIGRATIONS_REPEATABLE)
        version = 0;
    if (version == 0 || rl_name_check(name, NULL) != ROWLOCK_OK)
        return rl_fail(err, ROWLOCK_INVALID,
                       "%s is not named as a migration (0001_what_it_does.sql, from 1 on, or "
                       "R__what_it_does.sql); rename it, or keep it elsewhere",
                       name);
    if (!RL_GROW(folder->files, folder->count, folder->capacity))
        return out_of_memory(err);
    rl_file *file = &folder->files[folder->count++];
    *file = (rl_file){.version = version, .name = rl_strdup(name), .repeatable = repeatable};
    return file->name ? ROWLOCK_OK : out_of_memory(err);
}

static int by_version(const void *a, const void *b)
{
    const rl_file *one = a;
    const rl_file *other = b;
    if (one->version != other->version)
        return one->version < other->version ? -1 : 1;
    return strcmp(one->name, other->name);
}

static rowlock_status cannot_read(const char *name, int error, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_SYSTEM, "%s cannot be read: %s", name, strerrordesc_np(error));
}

/* Fails if the folder cannot be read to its end: missing files would look removed. */
static rowlock_status list_files(const char *path, DIR *dir, rl_folder *folder, rowlock_error *err)
{
    const struct dirent *entry = NULL;
    while (errno = 0, (entry = readdir(dir)))
        if (ends_in_sql(entry->d_name))
            RL_TRY(add_file(folder, entry->d_name, err));
    if (errno)
        return cannot_read(path, errno, err);
    if (folder->count > 0)
        qsort(folder->files, folder->count, sizeof *folder->files, by_version);
    for (size_t i = 1; i < folder->count; i++)
        if (folder->files[i].version == folder->files[i - 1].version)
            return rl_fail(err, ROWLOCK_INVALID,
                           "%s and %s have the same number; give one of them another",
                           folder->files[i - 1].name, folder->files[i].name);
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- contents */

static void close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static rowlock_status read_text(int fd, rl_file *file, rowlock_error *err)
{
    struct stat about;
    ssize_t got = 1;
    if (fd < 0 || fstat(fd, &about) != 0)
        return cannot_read(file->name, errno, err);
    if (!S_ISREG(about.st_mode))
        return rl_fail(err, ROWLOCK_INVALID, "%s is not a file", file->name);
    if ((size_t)about.st_size > FILE_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "%s is larger than 1 GiB", file->name);
    const size_t size = (size_t)about.st_size;
    file->text = malloc(size + 1);
    if (!file->text)
        return out_of_memory(err);
    while (file->length < size && got > 0) {
        got = read(fd, file->text + file->length, size - file->length);
        file->length += got > 0 ? (size_t)got : 0;
    }
    file->text[file->length] = '\0';
    return got < 0 ? cannot_read(file->name, errno, err) : ROWLOCK_OK;
}

static unsigned line_at(const rl_file *file, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset; i++)
        line += file->text[i] == '\n';
    return line;
}

/* Removes a byte order mark; refuses a file that is no text. */
static rowlock_status check_text(rl_file *file, rowlock_error *err)
{
    unsigned c = 0;
    if (file->length >= 3 && memcmp(file->text, "\xef\xbb\xbf", 3) == 0) {
        file->length -= 3;
        memmove(file->text, file->text + 3, file->length + 1);
    }
    for (size_t at = 0; at < file->length;) {
        size_t length = file->text[at] ? rl_utf8_decode(file->text + at, &c) : 0;
        if (length == 0)
            return rl_fail(err, ROWLOCK_INVALID, "%s, line %u: %s", file->name, line_at(file, at),
                           file->text[at] ? "that is not UTF-8" : "a NUL byte");
        at += length;
    }
    return ROWLOCK_OK;
}

/* CR LF counts as LF: git may change the ends of lines, and the file is still the same. */
static void add_text(rl_sha256 *sum, const char *at, size_t length)
{
    const char *end = at + length;
    for (const char *cr; (cr = memchr(at, '\r', (size_t)(end - at))); at = cr + 1) {
        bool goes = cr + 1 < end && cr[1] == '\n';
        rl_sha256_add(sum, at, (size_t)(cr - at) + !goes);
    }
    rl_sha256_add(sum, at, (size_t)(end - at));
}

static void sum_text(rl_file *file)
{
    rl_sha256 sum = rl_sha256_begin();
    add_text(&sum, file->text, file->length);
    rl_sha256_hex(&sum, file->checksum);
}

/* ------------------------------------------------------------------------ directives */

/* MariaDB has some modes that stand for a list with ANSI_QUOTES in it. */
static bool means_ansi_quotes(const char *modes)
{
    static const char *const words[] = {"ANSI", "ORACLE", "MSSQL", "POSTGRESQL", "DB2", "MAXDB"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(modes, words[i]))
            return true;
    return false;
}

static rowlock_status take_sql_mode(rl_file *file, const char *value, rowlock_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_,";
    size_t length = strlen(value);
    if (length > SQL_MODE_MOST || strspn(value, allowed) != length)
        return rl_fail(err, ROWLOCK_INVALID,
                       "%s: sql_mode is a list of modes in capitals, with commas", file->name);
    free(file->sql_mode);
    file->sql_mode = rl_strdup(value);
    file->ansi_quotes = means_ansi_quotes(value);
    file->no_backslashes = strstr(value, "NO_BACKSLASH_ESCAPES") != NULL;
    return file->sql_mode ? ROWLOCK_OK : out_of_memory(err);
}

/* A line "-- rowlock: ..." counts only at the top. Further down it is refused: it would have no
 * effect, and a user might rely on it. */
static rowlock_status take_directive(rl_file *file, const char *what, bool top, unsigned line,
                                     rowlock_error *err)
{
    static const char mode[] = "sql_mode=";
    const bool whole = strcmp(what, "transaction") == 0;
    const bool resumable = strcmp(what, "resumable") == 0;
    const bool of_mode = strncmp(what, mode, sizeof mode - 1) == 0;
    if (!top && !whole && !resumable && !of_mode)
        return ROWLOCK_OK;
    if (!top)
        return rl_fail(err, ROWLOCK_INVALID,
                       "%s, line %u: \"-- rowlock: %s\" counts at the top of the file alone, "
                       "above everything but lines that begin with --",
                       file->name, line, what);
    file->whole = file->whole || whole;
    file->resumable = file->resumable || resumable;
    if (of_mode)
        return take_sql_mode(file, what + sizeof mode - 1, err);
    if (whole || resumable)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "%s: \"-- rowlock: %s\" is not known (transaction, resumable, sql_mode=...)",
                   file->name, what);
}

/* The top: the comments of whole lines and the empty lines with which a file begins. */
static rowlock_status read_directives(rl_file *file, rowlock_error *err)
{
    static const char prefix[] = "-- rowlock:";
    char line[SQL_MODE_MOST + 40];
    bool top = true;
    unsigned number = 1;
    for (const char *at = file->text; *at; at += *at == '\n', number++) {
        size_t length = strcspn(at, "\n");
        size_t used = length < sizeof line - 1 ? length : sizeof line - 1;
        memcpy(line, at, used);
        while (used > 0 && isspace((unsigned char)line[used - 1]))
            used--;
        line[used] = '\0';
        at += length;
        top = top && (!*line || strncmp(line, "--", 2) == 0);
        if (strncmp(line, prefix, sizeof prefix - 1) != 0)
            continue;
        const char *what = line + sizeof prefix - 1;
        RL_TRY(take_directive(file, what + strspn(what, " "), top, number, err));
    }
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------- placeholders */

/* The value of a name of `length` bytes (from "schema=shop"); NULL: none is given. */
static const char *value_of(const char *const *placeholders, const char *name, size_t length)
{
    for (; *placeholders; placeholders++)
        if (strncmp(*placeholders, name, length) == 0 && (*placeholders)[length] == '=')
            return *placeholders + length + 1;
    return NULL;
}

/* Puts the values in place of ${name}. If no values are given, ${name} is text like any other. */
static rowlock_status put_values(rl_file *file, const char *const *placeholders, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    const char *at = file->text;
    if (!placeholders || !*placeholders)
        return ROWLOCK_OK;
    for (const char *mark; (mark = strstr(at, "${"));) {
        const char *name = mark + 2;
        const size_t length = strcspn(name, "}\n");
        const char *value = name[length] == '}' ? value_of(placeholders, name, length) : NULL;
        if (!value)
            return rl_fail(
                err, ROWLOCK_INVALID,
                "%s, line %u: there is no placeholder '%.*s'; give it one, or take ${ out",
                file->name, line_at(file, (size_t)(mark - file->text)),
                length < 60 ? (int)length : 60, name);
        rl_buffer_append(&text, at, (size_t)(mark - at));
        rl_buffer_append(&text, value, strlen(value));
        at = name + length + 1;
    }
    rl_buffer_append(&text, at, strlen(at));
    char *whole = text.failed ? NULL : rl_strdup(text.text ? text.text : "");
    if (!whole)
        return out_of_memory(err);
    free(file->text);
    file->text = whole;
    file->length = strlen(whole);
    return ROWLOCK_OK;
}

static rowlock_status read_file(int folder_fd, const char *const *placeholders, rl_file *file,
                                rowlock_error *err)
{
    RL_CLEANUP(close_fd) int fd = openat(folder_fd, file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    RL_TRY(read_text(fd, file, err));
    RL_TRY(check_text(file, err));
    RL_TRY(read_directives(file, err));
    if (!file->repeatable)
        sum_text(file);
    RL_TRY(put_values(file, placeholders, err));
    if (file->repeatable)
        sum_text(file);
    return ROWLOCK_OK;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

rowlock_status rl_folder_read(const char *path, const char *const *placeholders, rl_folder *folder,
                              rowlock_error *err)
{
    *folder = (rl_folder){0};
    RL_CLEANUP(close_dir) DIR *dir = opendir(path);
    if (!dir && (errno == ENOENT || errno == ENOTDIR))
        return rl_fail(err, ROWLOCK_INVALID, "there is no folder '%s'", path);
    if (!dir)
        return cannot_read(path, errno, err);
    RL_TRY(list_files(path, dir, folder, err));
    for (size_t i = 0; i < folder->count; i++)
        RL_TRY(read_file(dirfd(dir), placeholders, &folder->files[i], err));
    return ROWLOCK_OK;
}

void rl_folder_free(rl_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++) {
        free(folder->files[i].name);
        free(folder->files[i].text);
        free(folder->files[i].sql_mode);
    }
    free(folder->files);
    *folder = (rl_folder){0};
}

/* -------------------------------------------------------------------------- splitting */

static rowlock_status check_whole(const rl_file *file, const rl_statement *statement,
                                  rowlock_error *err)
{
    char title[60];
    bool ends = rl_ends_transaction(statement);
    if (!file->whole || !(ends || rl_commits_in_parts(statement)))
        return ROWLOCK_OK;
    rl_statement_title(statement, title, sizeof title);
    return rl_fail(err, ROWLOCK_INVALID,
                   "%s, line %u: `%s` %s end the transaction that the file asks for; take it "
                   "out, or \"-- rowlock: transaction\"",
                   file->name, statement->line, title, ends ? "would" : "may");
}

static rowlock_status split_file(rl_file *file, rowlock_error *err)
{
    rl_statement statement;
    rl_script script = rl_file_script(file);
    while (rl_script_next(&script, &statement)) {
        file->steps++;
        if (statement.length > file->longest) {
            file->longest = statement.length;
            file->longest_line = statement.line;
        }
        RL_TRY(check_whole(file, &statement, err));
    }
    if (script.problem)
        return rl_fail(err, ROWLOCK_INVALID, "%s, line %u: %s", file->name, script.problem_line,
                       script.problem);
    if (file->steps == 0)
        return rl_fail(err, ROWLOCK_INVALID,
                       "%s has no statement; write one, or take the file away", file->name);
    return ROWLOCK_OK;
}

rowlock_status rl_folder_split(rl_folder *folder, bool no_backslashes, bool ansi_quotes,
                               rowlock_error *err)
{
    for (size_t i = 0; i < folder->count; i++) {
        rl_file *file = &folder->files[i];
        if (!file->sql_mode) {
            file->no_backslashes = no_backslashes;
            file->ansi_quotes = ansi_quotes;
        }
        RL_TRY(split_file(file, err));
    }
    return ROWLOCK_OK;
}

rl_script rl_file_script(const rl_file *file)
{
    rl_script script = rl_script_begin(file->text, file->length);
    script.no_backslashes = file->no_backslashes;
    script.ansi_quotes = file->ansi_quotes;
    return script;
}

void rl_done_add(rl_sha256 *sum, const rl_statement *statement)
{
    add_text(sum, statement->text, statement->length);
    rl_sha256_add(sum, "", 1);
}

void rl_done_checksum(const rl_file *file, unsigned done, char hex[65])
{
    rl_sha256 sum = rl_sha256_begin();
    rl_statement statement;
    rl_script script = rl_file_script(file);
    for (unsigned step = 1; step <= done && rl_script_next(&script, &statement); step++)
        rl_done_add(&sum, &statement);
    rl_sha256_hex(&sum, hex);
}
