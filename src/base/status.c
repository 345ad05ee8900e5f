#include "rowlock/rowlock.h"

const char *rowlock_status_name(rowlock_status status)
{
    switch (status) {
#define NAME_OF(name, number, exit_status, text)                                                   \
    case ROWLOCK_##name:                                                                           \
        return #name;
        ROWLOCK_STATUS_MAP(NAME_OF)
#undef NAME_OF
    }
    return "?";
}

const char *rowlock_status_text(rowlock_status status)
{
    switch (status) {
#define TEXT_OF(name, number, exit_status, text)                                                   \
    case ROWLOCK_##name:                                                                           \
        return text;
        ROWLOCK_STATUS_MAP(TEXT_OF)
#undef TEXT_OF
    }
    return "?";
}

int rowlock_status_exit(rowlock_status status)
{
    switch (status) {
#define EXIT_OF(name, number, exit_status, text)                                                   \
    case ROWLOCK_##name:                                                                           \
        return exit_status;
        ROWLOCK_STATUS_MAP(EXIT_OF)
#undef EXIT_OF
    }
    return 70;
}

const char *rowlock_version(void)
{
    return ROWLOCK_VERSION_STRING;
}
