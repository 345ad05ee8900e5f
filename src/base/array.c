#include "base/array.h"

#include <stdlib.h>

void *rl_array_room(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t more = *capacity ? *capacity * 2 : 32;
    void *grown = reallocarray(items, more, size);
    if (grown)
        *capacity = more;
    return grown;
}
