/* site.c: the table of sites: lists that only grow, each at its head, by compare-and-swap. */
#include "profile/site.h"

#include <string.h>

#include "meta/meta.h"
#include "os/gate.h"

enum { LISTS_SHIFT = 12, SITES_MOST = 1 << 16 };

static _Atomic(hak_site_t *) lists[1 << LISTS_SHIFT] HAK_APART;
static _Atomic uint64_t site_count;
hak_site_t hak_site_rest HAK_APART;

uint64_t hak_site_count(void) { return hak_load_relaxed(&site_count); }

static uint64_t hash_of(const uintptr_t *frames, unsigned depth, uint32_t size) {
    uint64_t hash = size;
    for (unsigned i = 0; i < depth; i++)
        hash = ((hash ^ frames[i]) * 0x9E3779B97F4A7C15u) ^ hash >> 29;
    return hash * 0xBF58476D1CE4E5B9u;
}

/* Searches the sites from `first` up to `end`, which is left out. */
static hak_site_t *find(hak_site_t *first, const hak_site_t *end, const hak_site_t *wanted,
                        const uintptr_t *frames) {
    for (hak_site_t *site = first; site && site != end; site = site->next)
        if (site->hash == wanted->hash && site->size == wanted->size &&
            site->depth == wanted->depth &&
            memcmp(site->frames, frames, site->depth * sizeof *frames) == 0)
            return site;
    return NULL;
}

static hak_site_t *make(const hak_site_t *wanted, const uintptr_t *frames) {
    if (hak_load_relaxed(&site_count) >= SITES_MOST) return NULL;
    hak_site_t *site = hak_meta_alloc(sizeof *site + wanted->depth * sizeof *frames);
    if (!site) return NULL;
    memcpy(site, wanted, sizeof *site);
    memcpy(site->frames, frames, wanted->depth * sizeof *frames);
    return site;
}

/* Enters a new site in a list that began with `first`, where it is not; the site that another thread has entered
 * meanwhile; NULL without memory. */
static hak_site_t *enter(_Atomic(hak_site_t *) *list, hak_site_t *first, const hak_site_t *wanted,
                         const uintptr_t *frames) {
    hak_site_t *fresh = make(wanted, frames), *site;
    if (!fresh) return NULL;
    do {
        const hak_site_t *seen = fresh->next; /* NULL at first */
        fresh->next = first;
        if (first != seen && (site = find(first, seen, wanted, frames)) != NULL) {
            hak_meta_free(fresh, sizeof *fresh + wanted->depth * sizeof *frames);
            return site;
        }
    } while (!atomic_compare_exchange_weak_explicit(list, &first, fresh, memory_order_release,
                                                    memory_order_acquire));
    hak_add_relaxed(&site_count, 1);
    return fresh;
}

hak_site_t *hak_site_of(const uintptr_t *frames, unsigned depth, uint32_t size) {
    const hak_site_t wanted = {.hash = hash_of(frames, depth, size), .depth = depth, .size = size};
    _Atomic(hak_site_t *) *list = &lists[wanted.hash >> (64 - LISTS_SHIFT)];
    hak_site_t *first = hak_load_acquire(list); /* partner: the release below */
    hak_site_t *site = find(first, NULL, &wanted, frames);
    if (HAK_LIKELY(site != NULL)) return site;
    hak_gate_enter(); /* the child of a fork has the whole site, or none */
    site = enter(list, first, &wanted, frames);
    hak_gate_leave();
    return site ? site : &hak_site_rest;
}

void hak_site_each(hak_site_visit_t visit, void *context) {
    for (unsigned i = 0; i < 1 << LISTS_SHIFT; i++)
        for (hak_site_t *site = hak_load_acquire(&lists[i]); site; site = site->next)
            if (!visit(site, context)) return;
}
