/* cli/json.c - JSON: see table.h */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy that is UTF-8 throughout. */
static char *as_utf8(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *copy = cli_need(malloc(strlen(text) * (sizeof replacement - 1) + 1));
    char *out = copy;
    while (*text) {
        uint32_t c;
        size_t length = cli_utf8(text, &c);
        out = mempcpy(out, length ? text : replacement, length ? length : sizeof replacement - 1);
        text += length ? length : 1;
    }
    *out = '\0';
    return copy;
}

/* NULL is null. */
static void add(json_object *object, const char *key, json_object *value)
{
    if (json_object_object_add(object, key, value) != 0)
        cli_out_of_memory();
}

json_object *cli_json_new(void)
{
    return cli_need(json_object_new_object());
}

void cli_json_text(json_object *object, const char *key, const char *value)
{
    char *utf8 = as_utf8(value);
    add(object, key, cli_need(json_object_new_string(utf8)));
    free(utf8);
}

void cli_json_time(json_object *object, const char *key, const char *value)
{
    char iso[64];
    if (!*value) {
        add(object, key, NULL);
        return;
    }
    snprintf(iso, sizeof iso, "%sZ", value);
    char *blank = strchr(iso, ' ');
    if (blank)
        *blank = 'T';
    cli_json_text(object, key, iso);
}

void cli_json_number(json_object *object, const char *key, const char *digits)
{
    add(object, key, *digits ? cli_need(json_object_new_double_s(0, digits)) : NULL);
}

void cli_json_count(json_object *object, const char *key, uint64_t value)
{
    add(object, key, cli_need(json_object_new_uint64(value)));
}

json_object *cli_json_array(json_object *object, const char *key)
{
    json_object *array = cli_need(json_object_new_array());
    add(object, key, array);
    return array;
}

void cli_json_append(json_object *array, json_object *item)
{
    if (json_object_array_add(array, item) != 0)
        cli_out_of_memory();
}

/* json-c escapes only what JSON demands. Characters that could steer a terminal are written as
 * \uXXXX, too: they occur in strings alone, where that is the same text. */
static void print_harmless(FILE *out, const char *json)
{
    while (*json) {
        uint32_t c;
        size_t length = cli_utf8(json, &c);
        if (!cli_is_risky(c))
            fwrite(json, 1, length, out);
        else if (c > 0xffff)
            fprintf(out, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else
            fprintf(out, "\\u%04" PRIx32, c);
        json += length;
    }
}

static void print(FILE *out, json_object *object)
{
    const char *json = json_object_to_json_string_ext(object, JSON_C_TO_STRING_SPACED |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);
    if (!json)
        cli_out_of_memory();
    print_harmless(out, json);
    json_object_put(object);
}

void cli_json_print(json_object *object)
{
    print(stdout, object);
    putchar('\n');
}

char *cli_json_line(json_object *object, size_t *length)
{
    char *line = NULL;
    FILE *out = cli_need(open_memstream(&line, length));
    print(out, object);
    putc('\n', out);
    if (fclose(out) != 0)
        cli_out_of_memory();
    return line;
}

void cli_json_item(json_object *object, size_t index)
{
    fputs(index == 0 ? "[\n" : ",\n", stdout);
    print(stdout, object);
}

void cli_json_end(size_t count)
{
    puts(count == 0 ? "[]" : "\n]");
}
