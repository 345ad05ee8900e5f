/*
 * tests/fuzz/fuzz.h - functions for the fuzz targets.
 *
 * A target is a file with LLVMFuzzerTestOneInput(), which gives the bytes to its parser and checks
 * the result. libFuzzer runs it on inputs of its own making (tools/fuzz); replay.c runs it on the
 * committed corpus, in every build.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program unless the condition holds, and prints it. */
#define require(what)                                                                              \
    do {                                                                                           \
        if (!(what))                                                                               \
            fuzz_fail(__FILE__, __LINE__, #what);                                                  \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

/* A string of just these bytes, on the heap, so that reading beyond its end is seen. free() it. */
char *fuzz_text(const uint8_t *data, size_t size);

/*
 * The character at `text` and its length; 0 when there is none, or when it is not strict UTF-8. By
 * the table of RFC 3629, written apart from the decoders that it judges.
 */
size_t fuzz_utf8(const char *text, uint32_t *character);

/* A decoder agrees with fuzz_utf8() at every byte. */
void fuzz_check_decoder(const char *text, size_t (*decode)(const char *, uint32_t *));

/* True if all of the text is valid UTF-8. */
bool fuzz_is_utf8(const char *text);

/* Valid UTF-8, with nothing that could steer a terminal or end a line: no C0, DEL, C1, U+2028/9. */
bool fuzz_is_clean(const char *text);

bool fuzz_same(const char *a, const char *b); /* NULL equals only NULL */

/* A refusal must have its status, and one clean line that says why. */
void fuzz_check_refusal(rowlock_status status, const rowlock_error *err);

/*
 * No piece of a URL that may be its password (between the first colon behind the scheme and the
 * last @) is quoted in the message.
 */
void fuzz_check_discreet(const char *url, const char *message);

#endif
