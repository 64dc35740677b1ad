/* guard_sample.c: pages of sampled blocks: their queue, their records, their reports. */
#include "hardened/guard_sample.h"

#include <string.h>

#include "commit/commit.h"
#include "error/error.h"
#include "error/log.h"
#include "options/options.h"
#include "os/fault.h"
#include "os/os.h"
#include "os/unwind.h"

enum { FRAMES = 16, FILLING = 0xB5, ALIGN_LEAST = 8, ALIGN = 16 };

/* BUSY: one thread prepares or closes the page. REPORTED: closed, and its thread reports damage; if the program's handler
 * of SIGABRT jumps away from that, hak_guard_sample_give_up makes the page free. */
typedef enum { FREE, BUSY, USED, REPORTED } state_t;

typedef struct {
    uintptr_t frames[FRAMES];
    unsigned count, thread;
} call_t;

/* Except for `state`, written by the thread that has made the page BUSY. */
typedef struct {
    _Atomic uint32_t state;  /* lock to write */
    _Atomic uintptr_t block; /* the last one; 0 for none */
    _Atomic size_t size;     /* requested */
    call_t allocated, freed;
} page_t;

hak_guard_sample_t hak_sampled;
hak_lock_t hak_guard_sample_lock HAK_APART;
HAK_LOCK_RANK(SAMPLED, hak_guard_sample_lock, NULL);

static page_t pages[HAK_GUARD_SAMPLE_PAGES] HAK_APART;
static uint8_t queue[HAK_GUARD_SAMPLE_PAGES] HAK_APART; /* lock; a ring of free pages */
static unsigned queue_head, queue_count;                /* lock */
static uint64_t sides;  /* lock; random bits, for the side in the page */
static bool is_advised; /* constant */

/* ---- pages ---- */

static uintptr_t address_of(unsigned index) {
    return hak_load_relaxed(&hak_sampled.start) + (2 * index + 1) * hak_os_page_size();
}

/* NULL for an address between pages. */
static page_t *page_of(uintptr_t address) {
    size_t at = (address - hak_load_relaxed(&hak_sampled.start)) / hak_os_page_size();
    return at % 2 ? &pages[at / 2] : NULL;
}

/* Undoes both ways of close_page: the kernel refuses guards on locked pages, and close_page then
 * protects the page. */
static bool open_page(unsigned index) {
    void *start = (void *)address_of(index);
    if (is_advised && !hak_os_unguard(start, hak_os_page_size())) return false;
    return hak_os_commit(start, hak_os_page_size());
}

static void close_page(unsigned index) {
    void *start = (void *)address_of(index);
    if (is_advised && hak_os_guard(start, hak_os_page_size())) return;
    hak_os_purge(start, hak_os_page_size());
    hak_os_protect(start, hak_os_page_size());
}

size_t hak_guard_sample_committed(void) {
    return hak_guard_sample_on() ? HAK_GUARD_SAMPLE_PAGES * hak_os_page_size() : 0;
}

size_t hak_guard_sample_mappings(void) {
    return !hak_guard_sample_on() ? 0 : is_advised ? 1 : 2 * HAK_GUARD_SAMPLE_PAGES + 1;
}

/* ---- reports ---- */

static void note_call(call_t *call, const void *site) {
    call->count = hak_os_unwind(site, call->frames, FRAMES);
    call->thread = hak_os_thread_id();
}

static void show_call(const char *what, const call_t *call) {
    hak_log("  %s by thread %u:", what, call->thread);
    hak_error_stack(hak_log, call->frames, call->count);
}

static void show_history(const page_t *page) {
    show_call("allocated", &page->allocated);
    if (page->freed.count) show_call("freed", &page->freed);
}

/* The block that an access between two pages was probably meant for: a block in use rather than a
 * free one, then the closer one. */
static const page_t *neighbour(uintptr_t address) {
    size_t size = hak_os_page_size(), at = (address - hak_load_relaxed(&hak_sampled.start)) / size;
    const page_t *below = at ? &pages[at / 2 - 1] : NULL;
    const page_t *above = at / 2 < HAK_GUARD_SAMPLE_PAGES ? &pages[at / 2] : NULL;
    if (!below || !hak_load_relaxed(&below->block)) return above;
    if (!above || !hak_load_relaxed(&above->block)) return below;
    bool below_used = hak_load_relaxed(&below->state) == USED;
    if (below_used != (hak_load_relaxed(&above->state) == USED)) return below_used ? below : above;
    return address % size < size / 2 ? below : above;
}

/* Looks at the address of a fault. */
static void explain(uintptr_t address) {
    if (!hak_guard_sample_has((const void *)address)) return;
    const page_t *page = page_of(address), *other = page ? page : neighbour(address);
    uintptr_t block = other ? hak_load_relaxed(&other->block) : 0;
    size_t size = other ? hak_load_relaxed(&other->size) : 0;
    const bool in_use = other && hak_load_relaxed(&other->state) == USED;
    if (!block || (page && in_use)) return;
    const char *kind = in_use ? address > block ? "overflow" : "underflow" : "use after free";
    const char *place = address < block ? "before" : address < block + size ? "inside" : "behind";
    size_t distance = address < block          ? block - address
                      : address < block + size ? address - block
                                               : address - block - size;
    hak_error_begin();
    hak_log("%s: %p lies %zu %s %s a block of %zu %s at %p%s", kind, (void *)address,
            HAK_ERROR_BYTES(distance), place, HAK_ERROR_BYTES(size), (void *)block,
            in_use ? "" : ", which is free");
    show_history(other);
    hak_error_close((const void *)address);
}

void hak_guard_sample_report(const char *function, const void *pointer) {
    const page_t *page = page_of((uintptr_t)pointer);
    uintptr_t block = page ? hak_load_relaxed(&page->block) : 0;
    size_t size = page ? hak_load_relaxed(&page->size) : 0, at = (uintptr_t)pointer - block;
    if (!block || at > size) {
        hak_error_report(function, "foreign pointer: %p was not allocated by hakmem", pointer);
        return;
    }
    if (at == 0)
        hak_error_line(function, HAK_ERROR_DOUBLE_FREE, pointer, size);
    else
        hak_error_line(function, "interior pointer: %p lies %zu %s inside a block of %zu %s at %p",
                       pointer, HAK_ERROR_BYTES(at), HAK_ERROR_BYTES(size), (void *)block);
    show_history(page);
    hak_error_end(pointer);
}

static void report_damage(const char *function, const page_t *page, const char *kind, void *block,
                          size_t size, uintptr_t damage) {
    hak_error_line(function, "%s: %p is a block of %zu %s, and %p was written to", kind, block,
                   HAK_ERROR_BYTES(size), (void *)damage);
    show_history(page);
    hak_error_end(block);
}

/* ---- blocks ---- */

/* Index of a page that is now BUSY, and on which side the block shall be; -1 when none is free. */
static int take_page(bool *right) {
    int index = -1;
    hak_lock_acquire(&hak_guard_sample_lock);
    if (queue_count) {
        index = queue[queue_head];
        queue_head = (queue_head + 1) % HAK_GUARD_SAMPLE_PAGES;
        queue_count--;
        hak_store_relaxed(&pages[index].state, BUSY);
        if (sides <= 1) sides = hak_os_random() | (uint64_t)1 << 63;
        *right = sides & 1;
        sides >>= 1;
    } else {
        HAK_ADD_OWNED(&hak_sampled.without_page, 1);
    }
    hak_lock_release(&hak_guard_sample_lock);
    return index;
}

/* Lock held. */
static void enqueue(unsigned index) {
    hak_store_relaxed(&pages[index].state, FREE);
    queue[(queue_head + queue_count++) % HAK_GUARD_SAMPLE_PAGES] = (uint8_t)index;
}

static void put_page(unsigned index) {
    HAK_HOLD(&hak_guard_sample_lock);
    enqueue(index);
}

static HAK_BEHIND void begin_report(page_t *page) {
    HAK_HOLD(&hak_guard_sample_lock);
    hak_store_relaxed(&page->state, REPORTED);
}

HAK_BEHIND void hak_guard_sample_give_up(void) {
    if (!hak_guard_sample_on()) return;
    const unsigned thread = hak_os_thread_id();
    HAK_HOLD(&hak_guard_sample_lock);
    for (unsigned i = 0; i < HAK_GUARD_SAMPLE_PAGES; i++)
        if (hak_load_relaxed(&pages[i].state) == REPORTED && pages[i].freed.thread == thread)
            enqueue(i);
}

/* Changes a state, if it and the block are as expected, and the figures of what is live. */
static bool change_state(page_t *page, state_t from, state_t to, uintptr_t block) {
    hak_lock_acquire(&hak_guard_sample_lock);
    bool done = hak_load_relaxed(&page->state) == from && hak_load_relaxed(&page->block) == block;
    if (done) {
        size_t size = hak_load_relaxed(&page->size);
        hak_store_relaxed(&page->state, to);
        HAK_ADD_OWNED(&hak_sampled.live, to == USED ? 1 : (size_t)-1);
        HAK_ADD_OWNED(&hak_sampled.live_bytes, to == USED ? size : -size);
        HAK_ADD_OWNED(&hak_sampled.blocks, to == USED);
    }
    hak_lock_release(&hak_guard_sample_lock);
    return done;
}

static uintptr_t place(unsigned index, size_t size, size_t align, bool right) {
    uintptr_t start = address_of(index), end = start + hak_os_page_size();
    align = hak_max(align, size > ALIGN_LEAST ? ALIGN : ALIGN_LEAST);
    uintptr_t block = right ? (end - hak_max(size, 1)) & ~(align - 1) : start;
    memset((void *)start, FILLING, end - start);
    return (uintptr_t)memset((void *)block, 0, size);
}

void *hak_guard_sample_alloc(size_t size, size_t align, const void *site) {
    bool right;
    uintptr_t block = 0;
    if (size > hak_os_page_size() || align > hak_os_page_size()) return NULL;
    hak_gate_enter();
    int index = take_page(&right);
    if (index >= 0 && open_page((unsigned)index)) {
        page_t *page = &pages[index];
        block = place((unsigned)index, size, align, right);
        note_call(&page->allocated, site);
        page->freed.count = 0;
        hak_store_relaxed(&page->size, size);
        hak_store_relaxed(&page->block, block);
        change_state(page, BUSY, USED, block);
    } else if (index >= 0) {
        put_page((unsigned)index);
    }
    hak_gate_leave();
    return (void *)block;
}

bool hak_guard_sample_find(const void *pointer, void **start, size_t *size) {
    const page_t *page = page_of((uintptr_t)pointer);
    *start = page ? (void *)hak_load_relaxed(&page->block) : NULL;
    *size = page ? hak_load_relaxed(&page->size) : 0;
    return page && hak_load_relaxed(&page->state) == USED;
}

/* The first byte of a range that is not as it was; 0 for none. */
static uintptr_t find_change(uintptr_t at, uintptr_t end) {
    const uint64_t filling = FILLING * (UINT64_MAX / 255);
    for (; at < end; at++) {
        while (at % sizeof filling == 0 && end - at >= sizeof filling &&
               *(const uint64_t *)at == filling)
            at += sizeof filling;
        if (at < end && *(const uint8_t *)at != FILLING) return at;
    }
    return 0;
}

bool hak_guard_sample_free(void *pointer, const char *function, const void *site) {
    uintptr_t block = (uintptr_t)pointer;
    page_t *page = page_of(block);
    hak_gate_enter();
    if (!page || !change_state(page, USED, BUSY, block)) {
        hak_gate_leave();
        hak_guard_sample_report(function, pointer);
        return false;
    }
    unsigned index = (unsigned)(page - pages);
    size_t size = hak_load_relaxed(&page->size);
    uintptr_t start = address_of(index), damage = find_change(start, block);
    if (!damage) damage = find_change(block + size, start + hak_os_page_size());
    note_call(&page->freed, site);
    close_page(index);
    /* Before another block gets the page and replaces its history; outside the gate, since a handler of the program may
     * run. The child of a fork that comes meanwhile has one page less. */
    if (HAK_UNLIKELY(damage != 0)) {
        begin_report(page);
        hak_gate_leave();
        report_damage(function, page, damage < block ? "underflow" : "overflow", pointer, size,
                      damage);
        hak_gate_enter();
    }
    put_page(index);
    hak_gate_leave();
    return true;
}

void hak_guard_sample_each_range(hak_range_visitor_t visit, void *context) {
    if (!hak_guard_sample_on()) return;
    visit(context, HAK_RANGE_RECORDS, pages, sizeof pages);
    visit(context, HAK_RANGE_HEAP, (const void *)hak_load_relaxed(&hak_sampled.start),
          hak_load_relaxed(&hak_sampled.bytes));
}

/* ---- start ---- */

void hak_guard_sample_start(void) {
    size_t bytes = (2 * HAK_GUARD_SAMPLE_PAGES + 1) * hak_os_page_size();
    void *start = hak_os_reserve(bytes);
    if (!start) return;
    is_advised = hak_os_guard(start, bytes);
    if ((is_advised && !hak_os_commit(start, bytes)) ||
        !hak_commit_charge(HAK_GUARD_SAMPLE_PAGES * hak_os_page_size())) {
        hak_os_unmap(start, bytes);
        return;
    }
    hak_os_name(start, bytes, "hakmem: sampled blocks");
    for (unsigned i = 0; i < HAK_GUARD_SAMPLE_PAGES; i++) queue[i] = (uint8_t)i;
    queue_count = HAK_GUARD_SAMPLE_PAGES;
    hak_store_relaxed(&hak_sampled.start, (uintptr_t)start);
    hak_store_release(&hak_sampled.bytes,
                      bytes); /* partner: hak_guard_sample_on, hak_guard_sample_has */
    hak_os_on_fault(explain);
}
