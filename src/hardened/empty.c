/* empty.c: the range of blocks of size 0, and their bits. */
#include "hardened/empty.h"

#include "os/os.h"

enum { SHIFT = 4, SLOTS = 131072, WORDS = SLOTS / 64, RANGE = SLOTS << SHIFT };
enum {
    LOOKS = 32
}; /* words; if all are full, the part is nearly full, and a block of a class serves as well */

static _Atomic uintptr_t range; /* 0, then constant */
static _Atomic uint64_t used[WORDS] HAK_APART;

/* The range, reserved by the first thread that needs it; 0 when the system refuses. */
static uintptr_t the_range(void) {
    uintptr_t start = hak_load_acquire(&range), none = 0;
    if (HAK_LIKELY(start != 0)) return start;
    void *made = hak_os_reserve(RANGE);
    if (!made) return 0;
    if (hak_cas_acquire(&range, &none, (uintptr_t)made)) {
        hak_os_name(made, RANGE, "hakmem: blocks of size 0");
        return (uintptr_t)made;
    }
    hak_os_unmap(made, RANGE);
    return none;
}

bool hak_empty_has(const void *pointer) {
    uintptr_t start = hak_load_acquire(&range);
    return start && (uintptr_t)pointer - start < RANGE;
}

static uint32_t slot_of(const void *pointer) {
    return (uint32_t)((uintptr_t)pointer - hak_load_acquire(&range)) >> SHIFT;
}

/* Bits of the places in a word that are at a multiple of `step` places. */
static uint64_t places(uint32_t step) {
    uint64_t mask = 1;
    for (uint32_t i = step; i < 64; i += step) mask |= (uint64_t)1 << i;
    return mask;
}

/* The words of an origin: how many, and the first one. */
static uint32_t words_of(hak_origin_t origin) {
    return origin == HAK_ORIGIN_MALLOC ? WORDS / 2 : WORDS / 4;
}
static uint32_t first_of(hak_origin_t origin) {
    return origin == HAK_ORIGIN_MALLOC ? 0 : WORDS / 4 * (1 + (uint32_t)origin);
}
_Static_assert(HAK_ORIGIN_NEW == 1 && HAK_ORIGIN_NEW_ARRAY == 2, "the third and the last quarter");

hak_origin_t hak_empty_origin(const void *pointer) {
    const uint32_t quarter = slot_of(pointer) / (SLOTS / 4);
    return quarter < 2 ? HAK_ORIGIN_MALLOC : (hak_origin_t)(quarter - 1);
}

void *hak_empty_take(hak_random_t *random, size_t align, hak_origin_t origin) {
    const uintptr_t start = the_range();
    const uint32_t step = (uint32_t)hak_max(align >> SHIFT, 1), first = hak_random_next(random);
    const uint32_t every = step > 64 ? step / 64 : 1, words = words_of(origin);
    for (uint32_t i = 0, looks = 0; start && i < words && looks < LOOKS; i++) {
        const uint32_t w = first_of(origin) + (first + i) % words;
        if (w % every) continue;
        looks++;
        uint64_t bits = ~hak_load_relaxed(&used[w]) & places(step);
        for (; bits; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            if (hak_or_acq_rel(&used[w], bit) & bit) continue;
            return (void *)(start + ((uintptr_t)(w * 64 + hak_lowest_bit(bit)) << SHIFT));
        }
    }
    return NULL;
}

bool hak_empty_is_used(const void *pointer) {
    uint32_t slot = slot_of(pointer);
    return (uintptr_t)pointer % (1 << SHIFT) == 0 &&
           hak_load_relaxed(&used[slot / 64]) >> slot % 64 & 1;
}

bool hak_empty_give(const void *pointer) {
    uint32_t slot = slot_of(pointer);
    uint64_t bit = (uint64_t)1 << slot % 64;
    if ((uintptr_t)pointer % (1 << SHIFT) != 0) return false;
    return atomic_fetch_and_explicit(&used[slot / 64], ~bit, memory_order_acq_rel) & bit;
}

size_t hak_empty_count(void) {
    size_t count = 0;
    if (!hak_load_relaxed(&range)) return 0;
    for (uint32_t w = 0; w < WORDS; w++) {
        uint64_t bits = hak_load_relaxed(&used[w]);
        count += bits ? hak_bit_count(bits) : 0;
    }
    return count;
}
