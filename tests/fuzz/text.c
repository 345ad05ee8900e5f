/* Text for a terminal: it cannot steer one, in a buffer of any size; widths and cuts agree. */
#include "cli/cli.h"

#include "fuzz.h"

/* Characters that turn the direction of writing, or are invisible, as Unicode has them. */
static bool hides(uint32_t c)
{
    return (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0x200e ||
           c == 0x200f || c == 0x061c || c == 0x200b || c == 0xfeff ||
           (c >= 0xe0000 && c <= 0xe007f);
}

static bool is_harmless(const char *text)
{
    uint32_t c;
    if (!fuzz_is_clean(text))
        return false;
    for (size_t length; (length = fuzz_utf8(text, &c)) > 0; text += length)
        if (hides(c))
            return false;
    return true;
}

/* Text for a smaller buffer is the beginning of the whole, without cut characters or escapes. */
static void check_room(const char *text, const char *whole, size_t size)
{
    char *part = malloc(size);
    require(part && cli_printable_into(part, size, text) == part);
    size_t length = strnlen(part, size);
    require(length < size);
    require(strncmp(part, whole, length) == 0);
    require(is_harmless(part));
    require(length + 11 >= size || length == strlen(whole));
    free(part);
}

static void check_fit(const char *shown, size_t columns)
{
    size_t used = columns + 1;
    size_t length = cli_fit(shown, columns, &used);
    require(length <= strlen(shown));
    require(used <= columns && used <= cli_width(shown));
    char *part = strndup(shown, length);
    require(part && fuzz_is_utf8(part) && cli_width(part) == used);
    /* One more character would not have fitted. */
    require(!shown[length] || used + 2 > columns);
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cli_text_start();
    char *text = fuzz_text(data, size);
    fuzz_check_decoder(text, cli_utf8);
    char *shown = cli_printable(text);
    require(shown && is_harmless(shown));
    char *again = cli_printable(shown);
    require(again && strcmp(shown, again) == 0);
    for (size_t room = 1; room < 24; room++)
        check_room(text, shown, room);
    check_room(text, shown, strlen(shown) + 1);
    for (size_t columns = 0; columns < 12; columns++)
        check_fit(shown, columns);
    check_fit(shown, strlen(shown));
    require(cli_width(shown) <= strlen(shown));
    free(again);
    free(shown);
    free(text);
    return 0;
}
