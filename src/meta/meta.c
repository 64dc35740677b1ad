/* meta.c: power-of-two free lists over an area that is cut up from low to high. */
#include "meta/meta.h"

#include "meta/area.h"
#include "meta/verify.h"
#include "os/os.h"
#include "os/window.h"

enum {
    LEAST_SHIFT = 4,
    FIRST = 1 << LEAST_SHIFT, /* bytes of an area before its first record: the word before each
                                 record can be read */
    SHIFT_COUNT = 40,
    AREAS_MAX = 8, /* more than one where a foreign mapping stopped an area */
};

/* A free block's first word links it. These are blocks of HAKMEM, not of the program. */
typedef struct node {
    struct node *next;
} node_t;

hak_lock_t hak_meta_lock HAK_OWN_LINE;
HAK_LOCK_RANK(META, hak_meta_lock, hak_meta_check_at_release);

/* All under the lock. */
static node_t *lists[SHIFT_COUNT];
static node_t *bitmaps[SHIFT_COUNT]; /* free bitmaps */
static node_t *zeroed[SHIFT_COUNT];  /* free blocks that are zero except for the link */
static char *chunk_next, *chunk_end; /* accessible, and not handed out yet */
static size_t bytes_total;
static hak_area_t areas[AREAS_MAX];
static unsigned area_count; /* the last one grows */
static unsigned attempt;    /* of hak_os_window; the next to try */

/* A bit for each shift: its list of bitmaps may not be empty. Set after a bitmap was given back, cleared under the
 * lock. */
static _Atomic uint64_t has_bitmaps HAK_OWN_LINE;

static unsigned shift_of(size_t size) {
    if (size <= (1u << LEAST_SHIFT)) return LEAST_SHIFT;
    return hak_highest_bit(size - 1) + 1;
}

/* Cuts the rest of a chunk into the largest aligned pieces, and puts them on the lists. */
static void retire_chunk(void) {
    while (chunk_next < chunk_end) {
        unsigned shift = hak_lowest_bit((uintptr_t)chunk_next);
        while (chunk_next + ((size_t)1 << shift) > chunk_end) shift--;
        node_t *node = (node_t *)(void *)chunk_next;
        node->next = lists[shift];
        lists[shift] = node;
        chunk_next += (size_t)1 << shift;
    }
}

/* Places a new area in the next window that was not tried yet. False when there is none left. */
static bool place_area(void) {
    size_t size;
    char *window;
    if (area_count == AREAS_MAX) return false;
    while ((window = hak_os_window(attempt, &size)) != NULL) {
        hak_area_t *area = &areas[area_count];
        hak_os_answer_t answer =
            hak_area_place(area, window, hak_meta_window_part(size) / 2, "hakmem: records");
        if (answer == HAK_OS_REFUSED) return false;
        attempt++;
        if (answer != HAK_OS_MAPPED) continue;
        area_count++;
        return true;
    }
    return false;
}

/* Makes `more` bytes of the last area accessible. */
static hak_os_answer_t extend(size_t more) {
    hak_area_t *area = &areas[area_count - 1];
    size_t before = area->committed;
    hak_os_answer_t answer = hak_area_commit(area, before, before + more);
    if (answer != HAK_OS_MAPPED) return answer;
    if (chunk_end != area->base + before) { /* the first of this area */
        retire_chunk();
        chunk_next = area->base + before + FIRST;
    }
    chunk_end = area->base + area->committed;
    bytes_total += area->committed - before;
    return answer;
}

/* Makes `least` bytes or more accessible. A step is as long as all memory so far, from 64 KiB to 4 MiB, so that the
 * number of steps stays small; if the system refuses that much, it is `least` bytes. */
static bool take_step(size_t least) {
    size_t step = hak_max(hak_min(hak_max(bytes_total, 64 * KIB), 4 * MIB), least);
    for (;;) {
        hak_os_answer_t answer = HAK_OS_TAKEN;
        if (area_count) answer = extend(step);
        if (area_count && answer != HAK_OS_MAPPED) answer = extend(least);
        if (answer != HAK_OS_TAKEN) return answer == HAK_OS_MAPPED;
        if (!place_area()) return false;
    }
}

static void *carve(unsigned shift) {
    size_t size = (size_t)1 << shift;
    size_t align = hak_min(size, hak_os_page_size());
    char *block = (char *)hak_align_up((uintptr_t)chunk_next, align);
    if (!chunk_next || block + size > chunk_end) {
        if (!take_step(size + align)) return NULL; /* perhaps elsewhere */
        block = (char *)hak_align_up((uintptr_t)chunk_next, align);
    }
    /* The gap below an aligned block is used up by smaller ones. */
    char *end = chunk_end;
    chunk_end = block;
    retire_chunk();
    chunk_next = block + size;
    chunk_end = end;
    return block;
}

static void *take(node_t **list, unsigned shift) {
    HAK_HOLD(&hak_meta_lock);
    node_t *node = *list;
    if (!node) return carve(shift);
    *list = node->next;
    return node;
}

static void give(node_t **list, void *block) {
    node_t *node = block;
    if (!node) return;
    HAK_HOLD(&hak_meta_lock);
    node->next = *list;
    *list = node;
}

void *hak_meta_alloc(size_t size) { return take(&lists[shift_of(size)], shift_of(size)); }
void hak_meta_free(void *block, size_t size) { give(&lists[shift_of(size)], block); }

void *hak_meta_alloc_bitmap(size_t size) { return take(&bitmaps[shift_of(size)], shift_of(size)); }

void hak_meta_free_bitmap(void *block, size_t size) {
    const uint64_t bit = (uint64_t)1 << shift_of(size);
    give(&bitmaps[shift_of(size)], block);
    if (!(hak_load_relaxed(&has_bitmaps) & bit)) hak_or_relaxed(&has_bitmaps, bit);
}

HAK_BEHIND void *hak_meta_reuse_bitmap(size_t size) {
    const unsigned shift = shift_of(size);
    if (!(hak_load_relaxed(&has_bitmaps) >> shift & 1)) return NULL;
    HAK_HOLD(&hak_meta_lock);
    node_t *node = bitmaps[shift];
    if (node) bitmaps[shift] = node->next;
    if (!bitmaps[shift]) hak_and_relaxed(&has_bitmaps, ~((uint64_t)1 << shift));
    return node;
}

void *hak_meta_alloc_zeroed(size_t size) { /* blocks of other lists are not zero */
    node_t *block = take(&zeroed[shift_of(size)], shift_of(size));
    if (block) block->next = NULL;
    return block;
}

HAK_BEHIND void hak_meta_free_zeroed(void *block, size_t size) {
    give(&zeroed[shift_of(size)], block);
}

HAK_BEHIND size_t hak_meta_bytes(void) {
    HAK_HOLD(&hak_meta_lock);
    return bytes_total;
}

HAK_BEHIND size_t hak_meta_mappings(void) {
    HAK_HOLD(&hak_meta_lock);
    return area_count * (size_t)HAK_AREA_MAPPINGS;
}

HAK_BEHIND void hak_meta_each_range(hak_range_visitor_t visit, void *context) {
    HAK_HOLD(&hak_meta_lock);
    for (unsigned i = 0; i < area_count; i++)
        visit(context, HAK_RANGE_RECORDS, areas[i].base, areas[i].committed);
}

/* ---- check ---- */

static bool is_accessible(const char *start, size_t size) {
    for (unsigned i = 0; i < area_count; i++) {
        size_t offset = (size_t)(start - areas[i].base);
        if (offset <= areas[i].committed && size <= areas[i].committed - offset) return true;
    }
    return false;
}

static void check_chunk(hak_check_t *check) {
    size_t left = (size_t)(chunk_end - chunk_next);
    if (left == 0) return;
    hak_check_that(check, "records", chunk_next, "what is not handed out is accessible",
                   chunk_next < chunk_end && is_accessible(chunk_next, left));
}

static HAK_BEHIND void check_node(hak_check_t *check, const node_t *node, unsigned shift) {
    size_t size = (size_t)1 << shift, align = hak_min(size, hak_os_page_size());
    hak_check_that(check, "records", node, "a free block is aligned to its size up to a page",
                   (uintptr_t)node % align == 0);
    hak_check_that(check, "records", node, "a free block is accessible",
                   is_accessible((const char *)node, size));
}

static HAK_BEHIND void check_list(hak_check_t *check, const node_t *node, unsigned shift,
                                  size_t most) {
    for (size_t violations = check->violations; node && violations == check->violations; most--) {
        hak_check_that(check, "records", node, "a list has no more than there is", most > 0);
        check_node(check, node, shift);
        node = node->next;
    }
}

HAK_BEHIND void hak_meta_check(hak_check_t *check) {
    size_t bytes = 0;
    for (unsigned i = 0; i < area_count; i++) {
        hak_area_check(check, &areas[i]);
        bytes += areas[i].committed;
    }
    hak_check_equal(check, "records", areas, "bytes of all areas", bytes_total, bytes);
    check_chunk(check);
    for (unsigned shift = LEAST_SHIFT; shift < SHIFT_COUNT; shift++) {
        check_list(check, lists[shift], shift, bytes >> shift);
        check_list(check, zeroed[shift], shift, bytes >> shift);
    }
}

#if HAKMEM_VERIFY
/* Checks one list, the next one each time. */
void hak_meta_check_at_release(const void *lock) {
    static unsigned shift = LEAST_SHIFT;
    hak_check_t check = {0};
    (void)lock;
    check_chunk(&check);
    if (lists[shift]) check_node(&check, lists[shift], shift);
    if (++shift == SHIFT_COUNT) shift = LEAST_SHIFT;
    hak_check_stop(&check);
}
#endif
