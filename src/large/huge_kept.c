/* huge_kept.c: the parts, the bound on kept bytes, and the batches that go back to the system. */
#include "large/huge_kept.h"

#include "cache/cache.h"
#include "classes/classes.h"
#include "commit/commit.h"
#include "large/verify.h"
#include "large/huge.h"
#include "options/options.h"
#include "os/os.h"

enum {
    SINK_INTERVAL_MS = 250,
    BATCH_MAX = 32,                /* stretches unmapped in one go */
    KEEP_LEAST = 32 * 1024 * 1024, /* bytes that may be kept in any case */
};

hak_stretches_t hak_kept_parts[HAK_KEPT_PARTS] HAK_APART;
HAK_LOCK_RANKS(kept_rows, HUGE, hak_kept_parts, sizeof hak_kept_parts, sizeof *hak_kept_parts,
               hak_kept_check_at_release);

/* `longest` of a part: 0 for an empty part that has lost nothing; otherwise at least 1 + the length of the longest
 * stretch, in steps of 256 KiB, up to 255. Keeping a stretch raises it; a search that sees all stretches makes it
 * exact. It has a cache line of its own. If all parts shared one, each CPU would take it from the others whenever it
 * keeps or takes a stretch. */
enum { STEP_SHIFT = 18, LONGEST_MOST = UINT8_MAX };

static _Atomic unsigned parts_used HAK_READ_OFTEN; /* parts from here on have never kept anything */
static _Atomic unsigned purged_next HAK_OWN_LINE;  /* the part where the next purge begins */

void hak_kept_hold(size_t bytes) { (void)hak_add_relaxed(&hak_huge_stats.held_bytes, bytes); }

static void let_go(size_t bytes) { hak_kept_hold(-bytes); }

void hak_kept_leave(size_t bytes) {
    let_go(bytes);
    hak_commit_release(bytes);
}

void hak_kept_note_use(void) {
    uint64_t now = hak_os_now_ms();
    size_t used = hak_huge_bytes(), peak = hak_load_relaxed(&hak_huge_stats.recent_peak);
    while (used > peak && !hak_cas_acquire(&hak_huge_stats.recent_peak, &peak, used)) continue;
    if (hak_load_relaxed(&hak_huge_stats.allocated_ms) != now)
        hak_store_relaxed(&hak_huge_stats.allocated_ms, now);
}

/* ---- one part ---- */

static hak_stretches_t *own_part(void) {
    return &hak_kept_parts[hak_cache->shard % HAK_KEPT_PARTS];
}

/* The value of `longest` for a stretch of `size` bytes; the least value with which `size` bytes certainly fit. */
static uint8_t steps_of(size_t size) {
    return (uint8_t)hak_min(1 + (size >> STEP_SHIFT), LONGEST_MOST);
}
static uint8_t steps_for(size_t size) { return steps_of(size + ((size_t)1 << STEP_SHIFT) - 1); }

/* The next part, from the caller's on, that may have a stretch of `least` steps; the caller's own part counts even if
 * its stretches are shorter. NULL at the end. *at: parts looked at so far. */
static hak_stretches_t *next_part(unsigned *at, uint8_t least) {
    unsigned own = (unsigned)(own_part() - hak_kept_parts), count = hak_load_relaxed(&parts_used);
    while (*at < count) {
        unsigned i = own + (*at)++;
        while (i >= count) i -= count;
        unsigned has = hak_load_relaxed(&hak_kept_parts[i].longest);
        if (has && (has >= least || i == own)) return &hak_kept_parts[i];
    }
    return NULL;
}

static size_t take_change(hak_stretches_t *part) {
    size_t changed = part->bytes - part->noted;
    part->noted = part->bytes;
    return changed;
}

/* Adds what a section has changed to the sum of all parts. Part's lock held. */
static void note_kept(hak_stretches_t *part) {
    size_t changed = take_change(part);
    if (changed) (void)hak_add_relaxed(&hak_huge_stats.kept_bytes, changed);
}

/* The same; returns the sum. */
static size_t noted_sum(hak_stretches_t *part) {
    size_t changed = take_change(part);
    return changed ? hak_add_relaxed(&hak_huge_stats.kept_bytes, changed) + changed
                   : hak_load_relaxed(&hak_huge_stats.kept_bytes);
}

/* Keeps a stretch. Part's lock held. */
static bool put(hak_stretches_t *part, char *start, size_t size, uint64_t freed_ms) {
    _Atomic uint8_t *has = &part->longest;
    size_t length = hak_stretches_put(part, start, size, freed_ms);
    if (steps_of(length) > hak_load_relaxed(has)) hak_store_relaxed(has, steps_of(length));
    return length != 0;
}

/* `length` is that of the longest stretch, after a look at all stretches of a part. Part's lock held. */
static void note_longest(hak_stretches_t *part, size_t length) {
    _Atomic uint8_t *has = &part->longest;
    uint8_t steps = part->count ? steps_of(length) : part->lost != NULL;
    if (steps != hak_load_relaxed(has)) hak_store_relaxed(has, steps);
}

/* Takes a stretch that is large enough. Part's lock held. */
static char *take(hak_stretches_t *part, size_t size, size_t align) {
    size_t length = 0;
    char *block = hak_stretches_take(part, size, align, &length);
    if (block) part->reused++;
    note_longest(part, length);
    note_kept(part);
    return block;
}

/* Locks the caller's part. It then has places for stretches, unless there is no memory for them. */
static hak_stretches_t *lock_own(void) {
    hak_stretches_t *part = own_part();
    hak_lock_acquire(&part->lock);
    if (HAK_LIKELY(part->most)) return part;
    hak_lock_release(&part->lock);
    hak_stretch_t *places = hak_stretches_make_places();
    unsigned used = hak_load_relaxed(&parts_used), least = (unsigned)(part - hak_kept_parts) + 1;
    while (used < least && !hak_cas_acquire(&parts_used, &used, least)) continue;
    hak_lock_acquire(&part->lock);
    hak_stretches_use_places(part, places);
    return part;
}

/* ---- the bound on kept bytes ---- */

static size_t keep_most(size_t kept) {
    int64_t fixed = hak_option(HAK_OPTION_HUGE_CACHE);
    if (hak_option(HAK_OPTION_DISABLE_BATCH)) return 0;
    if (fixed >= 0) return (size_t)fixed;
    size_t used = hak_huge_bytes_beside(kept);
    size_t peak = hak_max(hak_load_relaxed(&hak_huge_stats.recent_peak), used);
    return hak_max(KEEP_LEAST, peak + peak / 2 - used);
}

bool hak_kept_is_too_much(void) {
    size_t kept = hak_load_relaxed(&hak_huge_stats.kept_bytes);
    return kept > keep_most(kept);
}

static void sink_peak(uint64_t now) {
    uint64_t sunk = hak_load_relaxed(&hak_huge_stats.sunk_ms);
    if (now < sunk + SINK_INTERVAL_MS || !hak_cas_acquire(&hak_huge_stats.sunk_ms, &sunk, now))
        return;
    size_t used = hak_huge_bytes(), peak = hak_load_relaxed(&hak_huge_stats.recent_peak);
    if (peak > used)
        (void)hak_cas_acquire(&hak_huge_stats.recent_peak, &peak, peak - (peak - used) / 8);
}

/* ---- back to the system ---- */

/* What was taken out under a lock, to be unmapped without it. */
typedef struct {
    hak_stretch_t stretches[BATCH_MAX];
    unsigned count;
} batch_t;

/* Takes out the oldest stretch. Part's lock held. */
static bool take_any(hak_stretches_t *part, hak_stretch_t *stretch) {
    return hak_stretches_take_oldest(part, stretch, SIZE_MAX, UINT64_MAX);
}

/* Takes out up to `most` bytes of the oldest stretch. Part's lock held. */
static bool take_out(hak_stretches_t *part, batch_t *batch, size_t most, uint64_t freed_by) {
    hak_stretch_t *stretch = &batch->stretches[batch->count];
    if (!hak_stretches_take_oldest(part, stretch, most, freed_by)) return false;
    if (stretch->size > most) { /* the rest is kept, short as it is */
        size_t rest = stretch->size - most;
        put(part, stretch->start, rest, stretch->freed_ms);
        stretch->start += rest;
        stretch->size = most;
    }
    let_go(stretch->size);
    batch->count++;
    return true;
}

/* Takes out what is too much, oldest first, rounded up to 1 MiB, but at most `most` bytes. Part's lock held. */
static void release_some(hak_stretches_t *part, batch_t *batch, size_t most) {
    for (size_t kept = noted_sum(part); batch->count < BATCH_MAX && most; kept = noted_sum(part)) {
        size_t may = keep_most(kept);
        if (kept <= may) break;
        if (!take_out(part, batch, hak_min(hak_align_up(kept - may, HAK_LARGE_MAX), most),
                      UINT64_MAX))
            break;
        most -= batch->stretches[batch->count - 1].size;
    }
}

/* Lists a stretch that could not be unmapped and for which there is no place. It stays charged, and the next purge
 * unmaps it. Part's lock held. */
static HAK_BEHIND void lose(hak_stretches_t *part, const hak_stretch_t *stretch) {
    hak_lost_t *lost = (hak_lost_t *)(void *)stretch->start;
    *lost = (hak_lost_t){part->lost, stretch->size};
    part->lost = lost;
    part->lost_bytes += stretch->size;
    if (!part->count) note_longest(part, 0);
}

/* Keeps a stretch that the kernel did not unmap. If there is no place for it, it takes the place of *other, which the
 * caller unmaps. If the part has no places at all, for lack of memory, the stretch is lost until a purge. */
static bool keep_refused(const hak_stretch_t *stretch, hak_stretch_t *other) {
    uint64_t now = hak_os_now_ms();
    other->size = 0;
    hak_stretches_t *part = lock_own();
    hak_stretches_make_room(part);
    bool kept = put(part, stretch->start, stretch->size, now);
    bool has_place = !kept && take_any(part, other);
    if (has_place) put(part, stretch->start, stretch->size, now);
    if (kept || has_place) hak_kept_hold(stretch->size - other->size);
    if (!part->most) lose(part, stretch);
    note_kept(part);
    hak_lock_release(&part->lock);
    return kept;
}

/* The kernel refuses to cut a mapping up if the process has too many. Such a stretch is kept,
 * if possible without its pages, until the kernel unmaps it. The part gets more places long
 * before the last one is taken. If there is no memory for them, the oldest stretch makes room:
 * most stretches are whole mappings, which can always be unmapped. If the kernel refuses all of
 * them, one is lost until a purge. */
static HAK_BEHIND void unmap_failed(hak_stretch_t stretch) {
    hak_stretch_t other;
    hak_os_purge(stretch.start, stretch.size);
    for (unsigned i = 0; i <= HAK_STRETCHES_MAX && !keep_refused(&stretch, &other); i++) {
        if (!other.size) return;
        if (hak_os_unmap(other.start, other.size)) {
            hak_commit_release(other.size);
            return;
        }
        stretch = other;
        if (i < HAK_STRETCHES_MAX) continue;
        hak_stretches_t *part = lock_own();
        lose(part, &stretch);
        hak_lock_release(&part->lock);
        return;
    }
}

/* Unmaps a batch; returns bytes. Without a lock. */
static size_t unmap_batch(const batch_t *batch) {
    size_t bytes = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const hak_stretch_t *stretch = &batch->stretches[i];
        if (!hak_os_unmap(stretch->start, stretch->size)) {
            unmap_failed(*stretch);
            continue;
        }
        hak_add_relaxed(&hak_huge_stats.unmapped, 1);
        hak_commit_release(stretch->size);
        bytes += stretch->size;
    }
    return bytes;
}

void hak_kept_unmap(char *start, size_t size) {
    batch_t batch = {.stretches = {{start, size, 0}}, .count = 1};
    let_go(size);
    unmap_batch(&batch);
}

/* Keeps a freed stretch, or adds it to the batch if there is no place for it. Adds no more bytes of other stretches
 * than it has itself, unless it needs the place of one. Part's lock held. */
static void keep(hak_stretches_t *part, char *start, size_t size, batch_t *batch) {
    uint64_t now = hak_os_now_ms();
    if (!put(part, start, size, now)) {
        batch->stretches[0] = (hak_stretch_t){start, size, now};
        batch->count = 1;
        if (take_any(part, &batch->stretches[0]))
            put(part, start, size, now); /* there is a place now */
        let_go(batch->stretches[0].size);
    }
    release_some(part, batch, size);
}

void hak_kept_keep(char *start, size_t size) {
    batch_t batch;
    batch.count = 0; /* the rest stays unset: most frees need none of it */
    hak_stretches_t *part = lock_own();
    keep(part, start, size, &batch);
    hak_lock_release(&part->lock);
    unmap_batch(&batch);
}

void hak_kept_put_back(const hak_stretch_t *stretch) {
    hak_stretches_t *part = lock_own();
    bool kept = put(part, stretch->start, stretch->size, stretch->freed_ms);
    note_kept(part);
    hak_lock_release(&part->lock);
    if (!kept) hak_kept_unmap(stretch->start, stretch->size);
}

/* Takes out lost stretches, which do not count as held. Part's lock held. */
static HAK_BEHIND void take_out_lost(hak_stretches_t *part, batch_t *batch) {
    while (part->lost && batch->count < BATCH_MAX) {
        hak_lost_t *lost = part->lost;
        batch->stretches[batch->count++] = (hak_stretch_t){(char *)lost, lost->size, 0};
        part->lost = lost->next;
        part->lost_bytes -= lost->size;
    }
}

/* Takes out what is old enough. While the program makes requests, the age of a stretch says little: then what the
 * recent peak allows is kept, and the peak sinks. Part's lock held. */
static void take_out_old(hak_stretches_t *part, batch_t *batch, size_t most, uint32_t delay_ms) {
    uint64_t now = hak_os_now_ms();
    uint64_t freed_by = !delay_ms ? UINT64_MAX : now > delay_ms ? now - delay_ms : 0;
    if (HAK_UNLIKELY(part->lost)) take_out_lost(part, batch);
    note_longest(part, hak_stretches_longest(part));
    sink_peak(now);
    if (hak_load_relaxed(&hak_huge_stats.allocated_ms) > freed_by) {
        release_some(part, batch, most);
        return;
    }
    while (batch->count < BATCH_MAX && most && take_out(part, batch, most, freed_by))
        most -= batch->stretches[batch->count - 1].size;
    note_kept(part);
}

/* Purges one part. A budget may be any number of bytes; a stretch is cut only between two pages. */
static size_t purge(hak_stretches_t *part, uint32_t delay_ms, hak_budget_t *budget) {
    size_t bytes = 0, page = hak_os_page_size();
    for (bool more = true; more && !hak_budget_is_spent(budget);) {
        batch_t batch = {.count = 0};
        hak_gate_enter();
        hak_lock_acquire(&part->lock);
        take_out_old(part, &batch, budget->bytes & ~(page - 1), delay_ms);
        hak_lock_release(&part->lock);
        size_t gone = unmap_batch(&batch);
        hak_gate_leave();
        hak_budget_look(budget, batch.count);
        hak_budget_give(budget, gone);
        bytes += gone;
        more = batch.count == BATCH_MAX && gone > 0;
    }
    return bytes;
}

/* Each piece, of whatever pass, begins behind the part where the last one ended, so that no thread loses its kept
 * stretches more often than others. If the budget ends within a part, more may be left there: the pass ends after a
 * round in which this does not happen. */
bool hak_kept_purge(unsigned *at, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes) {
    const unsigned count = hak_load_relaxed(&parts_used);
    unsigned i = hak_load_relaxed(&purged_next);
    for (; *at < count && !hak_budget_is_spent(budget); i++) {
        hak_stretches_t *part = &hak_kept_parts[i % count];
        ++*at;
        if (!hak_load_relaxed(&part->longest)) continue;
        const size_t gone = purge(part, delay_ms, budget);
        *bytes += gone;
        if (gone && hak_budget_is_spent(budget)) *at = 0;
        hak_budget_look(budget, 1);
    }
    const bool is_done = *at >= count;
    hak_store_relaxed(&purged_next, count ? (i + is_done) % count : 0);
    return is_done;
}

/* ---- searches ---- */

char *hak_kept_take(size_t size, size_t align) {
    char *block = NULL;
    unsigned at = 0;
    for (hak_stretches_t *part; !block && (part = next_part(&at, steps_for(size))) != NULL;) {
        HAK_HOLD(&part->lock);
        block = take(part, size, align);
    }
    return block;
}

char *hak_kept_take_or_shorter(size_t size, size_t align, hak_stretch_t *shorter) {
    hak_stretches_t *part = own_part();
    shorter->size = 0;
    HAK_HOLD(&part->lock);
    char *block = take(part, size, align);
    if (!block && align <= hak_os_page_size()) hak_stretches_take_shorter(part, shorter, size);
    note_kept(part);
    return block;
}

HAK_NEXT bool hak_kept_take_piece(hak_stretch_t *piece, size_t size, size_t least) {
    hak_stretches_t *part = own_part();
    size_t longest;
    *piece = (hak_stretch_t){.size = size, .freed_ms = hak_os_now_ms()};
    HAK_HOLD(&part->lock);
    piece->start = hak_stretches_take(part, size, hak_os_page_size(), &longest);
    bool taken = piece->start || hak_stretches_take_shorter(part, piece, size);
    if (taken && piece->size < least) {
        put(part, piece->start, piece->size, piece->freed_ms); /* its place is still free */
        taken = false;
    }
    note_kept(part);
    return taken;
}

bool hak_kept_take_at(char *start, size_t size) {
    bool taken = false;
    unsigned at = 0;
    for (hak_stretches_t *part; !taken && (part = next_part(&at, steps_of(size))) != NULL;) {
        HAK_HOLD(&part->lock);
        taken = hak_stretches_take_at(part, start, size);
        note_kept(part);
    }
    return taken;
}

HAK_BEHIND uint64_t hak_kept_reused(void) {
    uint64_t reused = 0;
    if (!hak_load_relaxed(&hak_huge_stats.mapped)) return 0; /* touches no part */
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) {
        HAK_HOLD(&hak_kept_parts[i].lock);
        reused += hak_kept_parts[i].reused;
    }
    return reused;
}

HAK_BEHIND bool hak_kept_has(const void *pointer) {
    bool has = false;
    unsigned at = 0;
    for (hak_stretches_t *part; !has && (part = next_part(&at, 0)) != NULL;) {
        HAK_HOLD(&part->lock);
        has = hak_stretches_has(part, pointer);
    }
    return has;
}

HAK_BEHIND void hak_kept_each_range(hak_range_visitor_t visit, void *context) {
    unsigned at = 0;
    for (hak_stretches_t *part; (part = next_part(&at, 0)) != NULL;) {
        HAK_HOLD(&part->lock);
        hak_stretches_each_range(part, visit, context);
    }
}
