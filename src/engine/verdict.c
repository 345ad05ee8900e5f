#include "engine/verdict.h"

#include <stddef.h>
#include <string.h>

rl_verdict rl_verdict_of(const char *word)
{
    static const char *const words[] = {
        [RL_VERDICT_WRONG_KIND] = "WRONG_KIND", [RL_VERDICT_HELD] = "HELD",
        [RL_VERDICT_EXPIRED] = "EXPIRED",       [RL_VERDICT_COOLING] = "COOLING",
        [RL_VERDICT_RESERVED] = "RESERVED",     [RL_VERDICT_FREE] = "FREE"};
    for (size_t i = RL_VERDICT_WRONG_KIND; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0)
            return (rl_verdict)i;
    return RL_VERDICT_GONE;
}
