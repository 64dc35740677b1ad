/* shadow.h - which bytes of the address space lie in live blocks, kept apart from the allocator. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Marks size bytes from ptr as live; false when some of them are live already. Threads may call
 * both functions at once; of two overlapping claims at least one sees the other. */
bool shadow_claim(const void *ptr, size_t size);

/* Marks them as free, before the allocator gets them back; false when some were not live. */
bool shadow_release(const void *ptr, size_t size);
