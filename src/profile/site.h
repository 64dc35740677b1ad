/* site.h: the places that allocate, and sums over their sampled blocks.
 *
 * A site is a call stack and a block size. It is never removed, so a profile reads the list without a lock. Sums are
 * estimates: a block of `s` bytes is sampled with probability p = 1 - exp(-s / rate) and stands for 1 / p blocks like
 * it. So every sum has the right expectation, whatever the site, size and thread. `s` is the size of the block's class,
 * since that determines p; the requested bytes are multiplied by the same 1 / p. */
#pragma once

#include "base/base.h"

enum {
    HAK_SITE_DEPTH = 64,       /* innermost frames that are kept */
    HAK_SITE_WEIGHT_BITS = 16, /* of a weight behind the point */
};

/* The sums of a site; weights are fixed-point numbers. */
typedef enum {
    HAK_SITE_ALLOC_OBJECTS, /* weights */
    HAK_SITE_ALLOC_BYTES,   /* requested */
    HAK_SITE_FREED_OBJECTS, /* weights */
    HAK_SITE_FREED_BYTES,   /* requested */
    HAK_SITE_REMOTE,        /* weights; freed by another thread than the one that allocated */
    HAK_SITE_LIFETIME_MS,   /* of the freed ones */
    HAK_SITE_REACHED,       /* weights; the program can reach them when it ends, as the next */
    HAK_SITE_REACHED_BYTES, /* requested */
    HAK_SITE_SUMS
} hak_site_sum_t;

typedef struct hak_site {
    struct hak_site *next;                /* constant once listed; an older site of the same list */
    uint64_t hash;                        /* constant, and so are the next two and the frames */
    uint32_t depth;                       /* frames, the innermost first */
    uint32_t size;                        /* bytes of the blocks; 0: above 64 KiB, of many sizes */
    _Atomic uint64_t sums[HAK_SITE_SUMS]; /* the first four as peak.h says; any thread adds */
    _Atomic uint64_t peak, peak_objects, peak_bytes; /* as peak.h says */
    uintptr_t frames[];
} hak_site_t;

/* The sums of all stacks that have no site, because there is no memory for it or there are too many. No profile shows
 * them, but the report of leaks adds them. */
extern hak_site_t hak_site_rest;

/* The site of a stack, made if it is new; hak_site_rest if it cannot be made. */
hak_site_t *hak_site_of(const uintptr_t *frames, unsigned depth, uint32_t size);

HAK_FAST_PATH void hak_site_add(hak_site_t *site, hak_site_sum_t sum, uint64_t amount) {
    hak_add_relaxed(&site->sums[sum], amount);
}

/* Calls `visit` for each site but hak_site_rest until it returns false. */
typedef bool (*hak_site_visit_t)(const hak_site_t *site, void *context);
void hak_site_each(hak_site_visit_t visit, void *context);

uint64_t hak_site_count(void);
