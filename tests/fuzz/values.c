/*
 * Written texts: JSON, as another parser (json-c) reads it; and statements that are sent as text,
 * which take no text that would need a quote.
 */
#include <json-c/json.h>

#include "base/text.h"
#include "cli/table.h"
#include "fuzz.h"
#include "migrate/script.h"
#include "stmt/stmt.h"

static json_object *read_json(const char *text, size_t length)
{
    enum json_tokener_error error = json_tokener_success;
    json_object *read = json_tokener_parse_verbose(text, &error);
    require(read && error == json_tokener_success);
    require(strlen(text) == length);
    return read;
}

/* Writes JSON as renewals_json() and the journal do. */
static void check_bound_json(const char *text, uint64_t count, int64_t number)
{
    rl_buffer out = {0};
    rl_buffer_puts(&out, "[");
    rl_json_u64(&out, count);
    rl_buffer_puts(&out, ",");
    rl_json_i64(&out, number);
    rl_buffer_puts(&out, ",");
    rl_json_string(&out, text);
    rl_buffer_puts(&out, "]");
    require(!out.failed);
    json_object *list = read_json(out.text, out.length);
    require(json_object_array_length(list) == 3);
    require(json_object_get_uint64(json_object_array_get_idx(list, 0)) == count);
    require(json_object_get_int64(json_object_array_get_idx(list, 1)) == number);
    json_object *string = json_object_array_get_idx(list, 2);
    require((size_t)json_object_get_string_len(string) == strlen(text));
    require(strcmp(json_object_get_string(string), text) == 0);
    json_object_put(list);
    rl_buffer_free(&out);
}

/* --json: whatever the tables have, the output is UTF-8, and safe for a terminal. */
static void check_shown_json(const char *text, int64_t number)
{
    json_object *object = cli_json_new();
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    cli_json_text(object, "text", text);
    cli_json_time(object, "time", text);
    cli_json_number(object, "number", digits);
    cli_json_print(object);
    fflush(stdout);
}

/* Catches the output of `rowlock ls --json`. */
static void check_printed(const char *text, int64_t number)
{
    char *printed = NULL;
    size_t length = 0;
    FILE *was = stdout;
    stdout = open_memstream(&printed, &length);
    require(stdout);
    check_shown_json(text, number);
    fclose(stdout);
    stdout = was;
    require(length > 0 && printed[length - 1] == '\n');
    printed[length - 1] = '\0';
    require(fuzz_is_clean(printed));
    json_object *read = read_json(printed, length - 1);
    json_object *member = json_object_object_get(read, "text");
    require(fuzz_is_utf8(json_object_get_string(member)));
    if (fuzz_is_utf8(text))
        require(strcmp(json_object_get_string(member), text) == 0);
    require(json_object_get_int64(json_object_object_get(read, "number")) == number);
    json_object_put(read);
    free(printed);
}

static bool is_word(const char *text)
{
    for (; *text; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
              (*text >= '0' && *text <= '9') || strchr("-_.", *text)))
            return false;
    return true;
}

/* With its values, a statement is still one statement, with its quotes closed. */
static void check_rendered(const char *text, uint64_t number)
{
    const rl_value values[] = {rl_u64(number), rl_u64(number), rl_text(text), rl_text("")};
    char owner[300];
    rl_buffer out = {0};
    bool good = rl_render(false, RL_SQL_CALLER_FENCE, "rowlock", values, &out);
    require(good == is_word(text));
    if (good && strlen(text) < 200) {
        snprintf(owner, sizeof owner, " owner = '%s' AND ", text);
        require(strstr(out.text, owner));
        require(rl_script_count(out.text) == 1);
    }
    rl_buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t count = 0;
    char *text = fuzz_text(data, size);
    memcpy(&count, data, size < sizeof count ? size : sizeof count);
    if (fuzz_is_utf8(text))
        check_bound_json(text, count, (int64_t)count);
    check_printed(text, (int64_t)count);
    check_rendered(text, count);
    free(text);
    return 0;
}
