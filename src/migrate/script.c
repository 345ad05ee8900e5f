#include "migrate/script.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ----------------------------------------------------------------------- characters */

static char peek(const rl_script *script, const char *at, size_t ahead)
{
    return (size_t)(script->end - at) > ahead ? at[ahead] : '\0';
}

static bool is_blank(char c)
{
    return isspace((unsigned char)c) != 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static const char *word_end(const rl_script *script, const char *at)
{
    while (at < script->end && is_word(*at))
        at++;
    return at;
}

static void note_problem(rl_script *script, unsigned line, const char *problem)
{
    if (script->problem)
        return;
    script->problem = problem;
    script->problem_line = line;
}

static unsigned lines_between(const char *from, const char *to)
{
    unsigned lines = 0;
    while ((from = memchr(from, '\n', (size_t)(to - from)))) {
        lines++;
        from++;
    }
    return lines;
}

/* The line of `at`, which is not before the script's present place. */
static unsigned line_of(const rl_script *script, const char *at)
{
    return script->line + lines_between(script->at, at);
}

static void move_to(rl_script *script, const char *at)
{
    script->line = line_of(script, at);
    script->at = at;
}

/* ----------------------------------------------------------------- quotes, comments */

static bool escapes(const rl_script *script, char quote)
{
    return quote != '`' && !script->no_backslashes && !(quote == '"' && script->ansi_quotes);
}

/* The end of the quoted text that begins at `at`. */
static const char *skip_quoted(rl_script *script, const char *at)
{
    const char *from = at;
    char quote = *at;
    bool backslashes = escapes(script, quote);
    for (at++; at < script->end; at++) {
        if (*at == '\\' && backslashes && at + 1 < script->end)
            at++;
        else if (*at == quote && peek(script, at, 1) == quote)
            at++;
        else if (*at == quote)
            return at + 1;
    }
    note_problem(script, line_of(script, from), "a quote is not closed");
    return at;
}

static const char *skip_line(const rl_script *script, const char *at)
{
    const char *newline = memchr(at, '\n', (size_t)(script->end - at));
    return newline ? newline + 1 : script->end;
}

static const char *skip_block(rl_script *script, const char *at)
{
    const char *close = memmem(at + 2, (size_t)(script->end - at) - 2, "*/", 2);
    if (close)
        return close + 2;
    note_problem(script, line_of(script, at), "a comment is not closed");
    return script->end;
}

static bool line_comment(const rl_script *script, const char *at)
{
    char third = peek(script, at, 2);
    return *at == '#' || (*at == '-' && peek(script, at, 1) == '-' &&
                          (is_blank(third) || iscntrl((unsigned char)third)));
}

static bool opens_block(const rl_script *script, const char *at)
{
    return *at == '/' && peek(script, at, 1) == '*';
}

/* A comment that the server executes is no comment. */
static bool opens_executed(const rl_script *script, const char *at)
{
    return opens_block(script, at) && (peek(script, at, 2) == '!' ||
                                       (peek(script, at, 2) == 'M' && peek(script, at, 3) == '!'));
}

static const char *skip_blank(rl_script *script, const char *at)
{
    while (at < script->end) {
        if (is_blank(*at))
            at++;
        else if (line_comment(script, at))
            at = skip_line(script, at);
        else if (opens_block(script, at) && !opens_executed(script, at))
            at = skip_block(script, at);
        else
            break;
    }
    return at;
}

/* ----------------------------------------------------------------------- delimiters */

/* A delimiter that is a word must stand alone: the "go" in "category" is none. */
static bool at_delimiter(const rl_script *script, const char *from, const char *at)
{
    size_t length = script->delimiter_length;
    const char *word = script->delimiter;
    if ((size_t)(script->end - at) < length || memcmp(at, word, length) != 0)
        return false;
    bool word_before = at > from && is_word(at[-1]);
    bool word_behind = is_word(peek(script, at, length));
    return !(is_word(word[0]) && word_before) && !(is_word(word[length - 1]) && word_behind);
}

static bool good_delimiter(const char *word, size_t length)
{
    if (length == 0 || length > RL_DELIMITER_MAX || *word == '#' || strncmp(word, "--", 2) == 0 ||
        strncmp(word, "/*", 2) == 0)
        return false;
    for (size_t i = 0; i < length; i++)
        if (strchr("\\'\"`", word[i]))
            return false;
    return true;
}

/* Takes the delimiter from a line "DELIMITER //": like the client, only the first word. */
static void take_delimiter(rl_script *script, const char *at)
{
    const char *line_end = skip_line(script, at);
    while (at < line_end && is_blank(*at))
        at++;
    const char *word = at;
    while (at < line_end && *at && !is_blank(*at))
        at++;
    size_t length = (size_t)(at - word);
    if (good_delimiter(word, length)) {
        memcpy(script->delimiter, word, length);
        script->delimiter[length] = '\0';
        script->delimiter_length = length;
    } else {
        note_problem(script, script->line,
                     "DELIMITER wants 1 to 15 characters, no quotes, backslashes or comments");
    }
    move_to(script, line_end);
}

static bool at_delimiter_line(const rl_script *script, const char *at)
{
    const rl_statement rest = {.text = at, .length = (size_t)(script->end - at)};
    const char *end = word_end(script, at);
    return rl_statement_is(&rest, "DELIMITER") && (end == script->end || is_blank(*end));
}

/* --------------------------------------------------------------------- the statements */

static const char *skip_backslash(rl_script *script, const char *at)
{
    /* \N is NULL. */
    if (peek(script, at, 1) != 'N' || is_word(peek(script, at, 2)))
        note_problem(script, line_of(script, at),
                     "a backslash outside of quotes (\\g, \\G and the like are commands of the "
                     "mysql client; here statements end with their delimiter)");
    return at + 1;
}

static const char *skip_one(rl_script *script, const char *at)
{
    if (*at == '\'' || *at == '"' || *at == '`')
        return skip_quoted(script, at);
    if (line_comment(script, at))
        return skip_line(script, at);
    if (opens_block(script, at))
        return skip_block(script, at);
    if (*at == '\\')
        return skip_backslash(script, at);
    return is_word(*at) ? word_end(script, at) : at + 1;
}

/* The statement's delimiter, or the end of the text. A delimiter in an executed comment does not
 * count. */
static const char *statement_end(rl_script *script, const char *from)
{
    const char *executed = NULL;
    const char *at = from;
    while (at < script->end && (executed || !at_delimiter(script, from, at))) {
        if (!executed && opens_executed(script, at)) {
            executed = at;
            at += peek(script, at, 2) == 'M' ? 4 : 3;
        } else if (executed && *at == '*' && peek(script, at, 1) == '/') {
            executed = NULL;
            at += 2;
        } else {
            at = skip_one(script, at);
        }
    }
    if (executed)
        note_problem(script, line_of(script, executed), "a comment is not closed");
    return at;
}

static void check_statement(rl_script *script, const rl_statement *statement)
{
    /* Commands of the mysql client: none of these words begins an SQL statement. */
    if (rl_statement_is_one_of(statement,
                               "SOURCE SYSTEM TEE NOTEE PAGER NOPAGER PROMPT REHASH EDIT EGO GO "
                               "QUIT EXIT PRINT CONNECT CHARSET STATUS CLEAR WARNINGS NOWARNING"))
        note_problem(script, statement->line, "that is a command of the mysql client, not SQL");
    if (rl_statement_is(statement, "END") && strcmp(script->delimiter, ";") == 0)
        note_problem(script, statement->line,
                     "a body with BEGIN ... END ends at its first semicolon: put lines "
                     "\"DELIMITER //\" and \"DELIMITER ;\" around it, and // behind its END");
}

rl_script rl_script_begin(const char *text, size_t length)
{
    return (rl_script){
        .at = text, .end = text + length, .line = 1, .delimiter = ";", .delimiter_length = 1};
}

/* Moves to the next statement. False: there is none. */
static bool find_statement(rl_script *script)
{
    for (;;) {
        move_to(script, skip_blank(script, script->at));
        if (script->at == script->end)
            return false;
        if (at_delimiter_line(script, script->at))
            take_delimiter(script, script->at + strlen("DELIMITER"));
        else if (at_delimiter(script, script->at, script->at))
            move_to(script, script->at + script->delimiter_length);
        else if (*script->at == ';')
            move_to(script, script->at + 1);
        else
            return true;
    }
}

bool rl_script_next(rl_script *script, rl_statement *statement)
{
    if (!find_statement(script))
        return false;
    const char *from = script->at;
    const char *end = statement_end(script, from);
    size_t length = (size_t)(end - from);
    while (length > 0 && is_blank(from[length - 1]))
        length--;
    *statement = (rl_statement){.text = from, .length = length, .line = script->line};
    check_statement(script, statement);
    move_to(script, end < script->end ? end + script->delimiter_length : end);
    return true;
}

unsigned rl_script_count(const char *text)
{
    unsigned count = 0;
    rl_statement statement;
    rl_script script = rl_script_begin(text, strlen(text));
    while (rl_script_next(&script, &statement))
        count++;
    return count;
}

/* Where the first quote after the words of a password begins; `length`: nowhere. */
static size_t before_secret(const char *text, size_t length)
{
    static const char *const words[] = {"IDENTIFIED", "PASSWORD"};
    bool secret = false;
    for (size_t i = 0; i < length; i++) {
        if (secret && (text[i] == '\'' || text[i] == '"'))
            return i;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            secret = secret || (length - i >= strlen(words[w]) &&
                                strncasecmp(text + i, words[w], strlen(words[w])) == 0);
    }
    return length;
}

bool rl_statement_has_secret(const rl_statement *statement)
{
    return before_secret(statement->text, statement->length) < statement->length;
}

/* If the first line is a single word ("CALL"), the next ones are taken, too. An end of line, with
 * the blanks around it, becomes one blank. */
void rl_statement_title(const rl_statement *statement, char *title, size_t size)
{
    const char *text = statement->text;
    const bool cut = statement->length > size - 1;
    const size_t end = before_secret(text, cut ? size - 1 : statement->length);
    unsigned words = 0;
    size_t at = 0;
    size_t n = 0;
    for (; at < end && !(text[at] == '\n' && words > 1); at++) {
        words += !is_blank(text[at]) && (at == 0 || is_blank(text[at - 1]));
        title[n++] = text[at];
        if (text[at] != '\n')
            continue;
        while (n > 0 && is_blank(title[n - 1]))
            n--;
        title[n++] = ' ';
        while (at + 1 < end && is_blank(text[at + 1]))
            at++;
    }
    /* Not in the middle of a character. */
    for (; n > 0 && at < statement->length && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
        n--;
    while (n > 0 && (title[n - 1] == '(' || is_blank(title[n - 1])))
        n--;
    title[n] = '\0';
}

static bool has_first(const rl_statement *statement, const char *word, size_t length)
{
    return statement->length >= length && strncasecmp(statement->text, word, length) == 0 &&
           (statement->length == length || !is_word(statement->text[length]));
}

bool rl_statement_is(const rl_statement *statement, const char *word)
{
    return has_first(statement, word, strlen(word));
}

bool rl_statement_is_one_of(const rl_statement *statement, const char *words)
{
    for (size_t n = 0; (n = strcspn(words, " ")) > 0; words += n + (words[n] == ' '))
        if (has_first(statement, words, n))
            return true;
    return false;
}

bool rl_statement_mentions(const rl_statement *statement, const char *what)
{
    size_t length = strlen(what);
    for (size_t i = 0; i + length <= statement->length; i++)
        if (strncasecmp(statement->text + i, what, length) == 0)
            return true;
    return false;
}

/* A script that is the statement's text from `at` on. */
static rl_script rest_of(const rl_statement *statement, const char *at)
{
    return rl_script_begin(at, (size_t)(statement->text + statement->length - at));
}

/* Skips the "!" and the version's digits. */
static const char *enter_executed(const rl_script *script, const char *at)
{
    at += peek(script, at, 2) == 'M' ? 4 : 3;
    while (at < script->end && isdigit((unsigned char)*at))
        at++;
    return at;
}

/* The next thing that is neither blank nor a comment, in executed comments too. */
static const char *skip_to_word(rl_script *script, const char *at)
{
    for (;;) {
        at = skip_blank(script, at);
        if (at < script->end && opens_executed(script, at))
            at = enter_executed(script, at);
        else if (at < script->end && *at == '*' && peek(script, at, 1) == '/')
            at += 2;
        else
            return at;
    }
}

static rl_statement from_there(const rl_script *script, const char *at, unsigned line)
{
    return (rl_statement){.text = at, .length = (size_t)(script->end - at), .line = line};
}

bool rl_statement_head(const rl_statement *statement, const char **at, rl_statement *head)
{
    rl_script script = rest_of(statement, *at ? *at : statement->text);
    const char *from = skip_blank(&script, script.at);
    if (from == script.end)
        return false;
    bool executed = opens_executed(&script, from);
    const char *word = executed ? skip_to_word(&script, from) : from;
    *head = from_there(&script, word, statement->line);
    *at = executed ? skip_block(&script, from) : script.end;
    return true;
}

rl_statement rl_statement_rest(const rl_statement *statement)
{
    rl_script script = rest_of(statement, statement->text);
    const char *at = skip_to_word(&script, word_end(&script, statement->text));
    return from_there(&script, at, statement->line);
}
