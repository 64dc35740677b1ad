/* shadow.c - one bit for every 8 bytes of address space, in a two-level table of private mappings.
 *
 * A leaf covers 1 GiB of addresses by 16 MiB of bits, of which only touched pages cost memory. Blocks
 * are aligned to 8 at least, so that two blocks never share a bit. */
#define _GNU_SOURCE
#include "shadow.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

#define GRANULE_SHIFT 3
#define LEAF_SHIFT 30
#define ADDRESS_BITS 47
#define LEAF_COUNT (1 << (ADDRESS_BITS - LEAF_SHIFT))
#define LEAF_GRANULES ((uint64_t)1 << (LEAF_SHIFT - GRANULE_SHIFT))

typedef _Atomic uint64_t bits;

static _Atomic(bits *) leaves[LEAF_COUNT];

static bits *leaf_of(uint64_t granule) {
    uint64_t index = granule / LEAF_GRANULES;
    CHECK(index < LEAF_COUNT, "a block lies beyond 2^%d", ADDRESS_BITS);
    bits *leaf = atomic_load_explicit(&leaves[index], memory_order_acquire);
    if (leaf != NULL) return leaf;
    size_t size = LEAF_GRANULES / 8;
    bits *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(fresh != MAP_FAILED, "no room for the shadow");
    if (atomic_compare_exchange_strong(&leaves[index], &leaf, fresh)) return fresh;
    munmap(fresh, size);
    return leaf;
}

/* Sets (or clears) the bits of the range; false when one of them had that value before. */
static bool change(const void *ptr, size_t size, bool set) {
    uint64_t next = (uintptr_t)ptr >> GRANULE_SHIFT;
    uint64_t end = ((uintptr_t)ptr + size + (1 << GRANULE_SHIFT) - 1) >> GRANULE_SHIFT;
    bool clean = true;
    while (next < end) {
        uint64_t in_leaf = next % LEAF_GRANULES;
        unsigned first = (unsigned)(in_leaf % 64);
        uint64_t count = 64 - first < end - next ? 64 - first : end - next;
        uint64_t mask = (count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1) << first;
        bits *word = leaf_of(next) + in_leaf / 64;
        uint64_t before = set ? atomic_fetch_or(word, mask) : atomic_fetch_and(word, ~mask);
        clean &= (before & mask) == (set ? 0 : mask);
        next += count;
    }
    return clean;
}

bool shadow_claim(const void *ptr, size_t size) { return change(ptr, size, true); }

bool shadow_release(const void *ptr, size_t size) { return change(ptr, size, false); }
