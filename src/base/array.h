/* base/array.h - arrays that grow. */
#ifndef RL_ARRAY_H
#define RL_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Room behind the first `count` of `items`, a pointer that may change, for one more. False: no
 * memory, and all is as it was. */
#define RL_GROW(items, count, capacity) rl_array_grow(&(items), count, &(capacity), sizeof *(items))

bool rl_array_grow(void *items, size_t count, size_t *capacity, size_t size);

#endif
