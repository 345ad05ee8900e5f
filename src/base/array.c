#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* `items` points to a pointer of any type: so it is copied. */
bool rl_array_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 32;
    void *grown = NULL;
    memcpy(&grown, items, sizeof grown);
    grown = reallocarray(grown, more, size);
    if (!grown)
        return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = more;
    return true;
}
