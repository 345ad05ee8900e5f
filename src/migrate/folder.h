/* migrate/folder.h - a folder of numbered .sql files, read and split. */
#ifndef RL_MIGRATE_FOLDER_H
#define RL_MIGRATE_FOLDER_H

#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "migrate/script.h"

typedef struct rl_file {
    uint64_t version; /* its number, at least 1; of a repeatable file, made from its name */
    char *name;       /* without the folder */
    char *text;       /* UTF-8 without NUL and byte order mark */
    size_t length;
    char checksum[65]; /* of the text, with CR LF counted as LF */
    unsigned steps;    /* statements, once it is split */
    size_t longest;    /* bytes of the longest one, and the line in which it begins */
    unsigned longest_line;
    char *sql_mode;      /* the sql_mode that it asks for; NULL: the server's */
    bool no_backslashes; /* how to split it */
    bool ansi_quotes;
    bool whole;      /* it asks to be one transaction */
    bool resumable;  /* it says that each statement may be run again */
    bool repeatable; /* R__what.sql: run again whenever it has changed, after the others */
} rl_file;

/* In the order of their numbers. */
typedef struct rl_folder {
    rl_file *files;
    size_t count;
    size_t capacity;
} rl_folder;

/*
 * Files are named NUMBER_what.sql (or VNUMBER__what.sql); files that do not end in .sql, or begin
 * with a dot, are ignored. INVALID: another name, a number twice, not UTF-8, a NUL, an unknown "--
 * rowlock:" line. SYSTEM: cannot be read. Free it on every status.
 *
 * `placeholders`: as in rowlock_migrations_options. A checksum is of the text as it stands; of a
 * repeatable file, with the values in it.
 */
rowlock_status rl_folder_read(const char *path, const char *const *placeholders, rl_folder *folder,
                              rowlock_error *err) RL_MUST_USE;
void rl_folder_free(rl_folder *folder);

/* Splits the files. The server's sql_mode decides how quotes are read, unless the file sets it.
 * INVALID: a file cannot be split; the message names the line. */
rowlock_status rl_folder_split(rl_folder *folder, bool no_backslashes, bool ansi_quotes,
                               rowlock_error *err) RL_MUST_USE;

/* A script that begins at the file's first statement. */
rl_script rl_file_script(const rl_file *file);

/* Adds a statement to the checksum of the statements that are done (rl_record's done_checksum). */
void rl_done_add(rl_sha256 *sum, const rl_statement *statement);
/* The checksum of the first `done` statements. */
void rl_done_checksum(const rl_file *file, unsigned done, char hex[65]);

#endif
