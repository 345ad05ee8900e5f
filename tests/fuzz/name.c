/* Names and labels: the rules of rowlock.h, written a second time. */
#include "base/name.h"

#include "base/text.h"
#include "fuzz.h"

enum { MOST = 255 }; /* characters */

/* Unicode's White_Space that is no control character, and U+FEFF. */
static bool is_space(uint32_t c)
{
    static const uint32_t spaces[] = {0x20,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002,
                                      0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200a, 0x202f, 0x205f, 0x3000, 0xfeff};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (c == spaces[i])
            return true;
    return false;
}

static bool is_good(const char *name)
{
    size_t count = 0;
    uint32_t first = 0;
    uint32_t last = 0;
    if (!fuzz_is_clean(name))
        return false;
    for (size_t length; (length = fuzz_utf8(name, &last)) > 0; name += length)
        first = count++ == 0 ? last : first;
    return count >= 1 && count <= MOST && !is_space(first) && !is_space(last);
}

/* A label is the given text, made clean and cut to the room that there is. */
static void check_label(const char *text, size_t size)
{
    char *label = malloc(size);
    char *again = malloc(size);
    require(label && again);
    rl_copy_label(label, size, text);
    require(memchr(label, '\0', size));
    require(fuzz_is_clean(label));
    rl_copy_label(again, size, label);
    require(strcmp(label, again) == 0);
    /* It is cut only if there is too little room. */
    require(strlen(label) + 4 >= size || strlen(label) <= strlen(text));
    if (fuzz_is_clean(text) && strlen(text) < size)
        require(strcmp(label, text) == 0);
    free(label);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    rowlock_error err = {0};
    rowlock_status status = rl_name_check(text, &err);
    require((status == ROWLOCK_OK) == is_good(text));
    if (status != ROWLOCK_OK)
        fuzz_check_refusal(status, &err);
    fuzz_check_decoder(text, rl_utf8_decode);
    check_label(text, size ? data[0] % 40U + 1 : 1);
    check_label(text, 4 * size + 1);
    free(text);
    return 0;
}
