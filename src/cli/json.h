/* cli/json.h - output for programs. Out of memory ends the program, in one line. */
#ifndef RL_CLI_JSON_H
#define RL_CLI_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

json_object *cli_json_new(void);

/* Members. Bytes that are not UTF-8 become U+FFFD, so that the output is always valid. */
void cli_json_text(json_object *object, const char *key, const char *value);
/* "2026-11-21 07:56:44.123456" as 2026-11-21T07:56:44.123456Z; "" as null. */
void cli_json_time(json_object *object, const char *key, const char *value);
void cli_json_bool(json_object *object, const char *key, bool value);
/* The digits as they are; "" as null. */
void cli_json_number(json_object *object, const char *key, const char *digits);
void cli_json_count(json_object *object, const char *key, uint64_t value);
/* null where it is not known. */
void cli_json_int(json_object *object, const char *key, bool known, int64_t value);

/* A member that is an empty array (it belongs to the object), and a further item of one. */
json_object *cli_json_array(json_object *object, const char *key);
void cli_json_append(json_object *array, json_object *item);

/* Prints it on a line of its own, and frees it. */
void cli_json_print(json_object *object);
/* The same as the index-th of an array, then the end of an array of so many. */
void cli_json_item(json_object *object, size_t index);
void cli_json_end(size_t count);

#endif
