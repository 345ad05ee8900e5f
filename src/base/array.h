/* base/array.h - arrays that grow. */
#ifndef RL_ARRAY_H
#define RL_ARRAY_H

#include <stddef.h>

/*
 * `items` of `size` bytes each, with room behind the first `count` for one more; it may have
 * moved. NULL: no memory, and `items` is as it was.
 */
void *rl_array_room(void *items, size_t count, size_t *capacity, size_t size);

#endif
