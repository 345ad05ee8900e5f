/*
 * Every allocation fails once, in every conversation; then every thread, descriptor and page that
 * the system could refuse.
 */
#include "inside/talks.h"

static void test_memory(void **state)
{
    (void)state;
    const trial how = {.kind = INJECT_MEMORY, .allowed = MAY(SYSTEM), .brief = true};
    talk_through_all(&how);
}

static void test_memory_behind(void **state)
{
    (void)state;
    const trial how = {.kind = INJECT_MEMORY, .side = INJECT_BEHIND, .allowed = MAY(SYSTEM)};
    talk_through_all(&how);
}

static void test_system(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_SYSTEM, .side = INJECT_CALLER, .allowed = MAY(SYSTEM) | MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

static void test_system_behind(void **state)
{
    (void)state;
    const trial how = {
        .kind = INJECT_SYSTEM, .side = INJECT_BEHIND, .allowed = MAY(SYSTEM) | MAY(UNAVAILABLE)};
    talk_through_all(&how);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_memory),
        ONCE(test_memory_behind),
        ONCE(test_system),
        ONCE(test_system_behind),
    };
    return cmocka_run_group_tests_name("alloc", tests, talks_begin, talks_end);
}
