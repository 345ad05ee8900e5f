/*
 * Each allocation fails once, in each conversation; then each thread, descriptor and page that the
 * system could refuse.
 */
#include "inside/talks.h"

static const way memory[] = {{INJECT_MEMORY, MAY(SYSTEM), 0, NULL}, {0}};
static const way others[] = {{INJECT_SYSTEM, MAY(SYSTEM) | MAY(UNAVAILABLE), 0, NULL}, {0}};

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAIL_IN("test_memory", memory),
        FAIL_IN("test_threads_descriptors_pages", others),
    };
    return cmocka_run_group_tests_name("alloc", tests, talks_begin, talks_end);
}
