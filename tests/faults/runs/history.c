#include "history.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <time.h>

int64_t history_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

bool history_open(history *h, const char *folder, unsigned who)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%u", folder, who);
    h->who = who;
    h->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    return h->fd >= 0;
}

int64_t history_log(const history *h, const char *words, ...)
{
    char line[1000];
    va_list args;
    int64_t now = history_now();
    int length = snprintf(line, sizeof line, "%" PRId64 " %u ", now, h->who);
    va_start(args, words);
    length += vsnprintf(line + length, sizeof line - 1 - (size_t)length, words, args);
    va_end(args);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    /* A history with a gap proves nothing. */
    if (write(h->fd, line, (size_t)length) != length)
        abort();
    return now;
}

static bool parse_line(event *e, char *line)
{
    char *end;
    e->at = strtoll(line, &end, 10);
    if (end == line || *end != ' ')
        return false;
    char *who = end + 1;
    e->who = (unsigned)strtoul(who, &end, 10);
    if (end == who || *end != ' ')
        return false;
    char *word = end + 1;
    size_t length = strcspn(word, " ");
    if (length == 0 || length >= sizeof e->word)
        return false;
    snprintf(e->word, sizeof e->word, "%.*s", (int)length, word);
    e->rest = word + length + (word[length] == ' ');
    return true;
}

static bool add(events *all, const event *e, size_t *capacity)
{
    if (all->count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 1024;
        event *list = realloc(all->list, *capacity * sizeof *list);
        if (!list)
            return false;
        all->list = list;
    }
    all->list[all->count++] = *e;
    return true;
}

/* Lines with equal times keep their order. */
static int by_time(const void *a, const void *b)
{
    const event *x = a;
    const event *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->rest < y->rest ? -1 : x->rest > y->rest;
}

bool history_parse(events *all, char *text)
{
    size_t capacity = 0;
    *all = (events){.text = text};
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        event e;
        *end = 0;
        if (*line == 0)
            continue;
        if (!parse_line(&e, line)) {
            fprintf(stderr, "no line of a history: %s\n", line);
            return false;
        }
        if (!add(all, &e, &capacity))
            return false;
    }
    if (all->count > 0)
        qsort(all->list, all->count, sizeof *all->list, by_time);
    return true;
}

/* Text after the last newline is a line that a SIGKILL has cut. */
static bool append_file(FILE *out, const char *path)
{
    FILE *in = fopen(path, "r");
    char line[2000];
    bool whole = true;
    if (!in)
        return false;
    while (fgets(line, sizeof line, in)) {
        whole = strchr(line, '\n') != NULL;
        if (whole)
            fputs(line, out);
    }
    fclose(in);
    return true;
}

bool history_read(events *all, const char *folder)
{
    char *text = NULL;
    size_t size = 0;
    bool good = true;
    DIR *dir = opendir(folder);
    FILE *out = open_memstream(&text, &size);
    *all = (events){0};
    if (!dir || !out)
        return false;
    for (struct dirent *entry; good && (entry = readdir(dir)) != NULL;) {
        char path[800];
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        good = append_file(out, path);
    }
    closedir(dir);
    fclose(out);
    return history_parse(all, text) && good;
}

void history_free(events *all)
{
    free(all->list);
    free(all->text);
    *all = (events){0};
}

bool event_is(const event *e, const char *word)
{
    return strcmp(e->word, word) == 0;
}

const char *event_value(const event *e, const char *key, size_t *length)
{
    size_t key_length = strlen(key);
    for (const char *at = e->rest; *at;) {
        size_t whole = strcspn(at, " ");
        if (whole > key_length && at[key_length] == '=' && strncmp(at, key, key_length) == 0) {
            *length = whole - key_length - 1;
            return at + key_length + 1;
        }
        at += whole + (at[whole] == ' ');
    }
    *length = 0;
    return "";
}

bool event_has(const event *e, const char *key, const char *value)
{
    size_t length;
    const char *found = event_value(e, key, &length);
    return length == strlen(value) && strncmp(found, value, length) == 0;
}

int64_t event_number(const event *e, const char *key)
{
    size_t length;
    return strtoll(event_value(e, key, &length), NULL, 10);
}

uint64_t event_unsigned(const event *e, const char *key)
{
    size_t length;
    return strtoull(event_value(e, key, &length), NULL, 10);
}

void event_copy(const event *e, const char *key, char *to, size_t size)
{
    size_t length;
    const char *found = event_value(e, key, &length);
    snprintf(to, size, "%.*s", (int)length, found);
}
