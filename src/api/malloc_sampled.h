/* malloc_sampled.h: malloc while some of its calls are sampled (cache/sampler.h). The slow halves of the public
 * functions come here when hak_sampler_on(). */
#pragma once

#include "base/base.h"

/* Starts what the options ask for: the heap profiler, guarded blocks, or both. Called by the process's
 * only thread. */
HAK_SLOW_PATH void hak_malloc_sampled_start(void);

/* Allocates `size` bytes at a multiple of `align`, a power of two; zeroed if `zero`. NULL with ENOMEM.
 * `class_index`: the class that serves the request, or HAK_CLASS_LARGE. */
void *hak_malloc_sampled(unsigned class_index, size_t size, size_t align, bool zero,
                         const void *site);

/* A block of `size` bytes, up to 64 KiB, for the sample of another block; no sample of its own. NULL without memory. */
void *hak_malloc_sampled_room(size_t size, const void *site);

/* Counts a block that was allocated without regard to samples, and samples it if that is due. `class_index` is
 * HAK_CLASS_LARGE for a block of no class. */
void hak_malloc_sampled_note(const void *block, unsigned class_index, size_t size,
                             const void *site);

/* The same in two steps, for a caller inside the gate: true when a profile is due, which the second step writes. */
bool hak_malloc_sampled_enter(const void *block, unsigned class_index, size_t size,
                              const void *site);
void hak_malloc_sampled_write(void);
