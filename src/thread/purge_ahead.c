/* purge_ahead.c: how much free memory a program without a helper thread keeps.
 *
 * If such a program has freed much memory and makes no further call, no thread can give the memory back when its delay
 * has ended. So each free gives back a piece of the free memory that exceeds a small part of the recent peak. When the
 * last free returns, little is kept.
 *
 * But a program that frees and allocates the same memory in turn would pay for its pages again and again. Only its
 * behaviour distinguishes the two: if memory in use falls and soon rises again, that is a swing, and the amount of the
 * swing is kept from then on. This amount sinks by an eighth in each interval without a further swing. If a swing is
 * larger than the amount that was left, memory that had been given back was touched again; then the interval doubles,
 * until the swing has been forgotten. So a program pays for its first swing, and for a few of those that are seconds
 * apart.
 *
 * Soon means within PURGE_DELAY_MS: by then a helper would have given the free memory back. If memory in use has not
 * risen for that long, the memory above it was not needed. It is no part of a swing, is not kept any longer, and goes
 * back at the next calls, including allocations. A slow rise may take longer, as long as it continues. With a delay of
 * 0 nothing is a swing, and nothing is missed.
 *
 *   low    least in use since it last fell;  fallen  by how much it had fallen there
 *   swing  the lesser of `fallen` and of the rise since;  expected  what it was at `low`
 *   level  most in use since `low`, or since it last stayed where it was;  top = low + fallen
 *   mark   in use at `mark_ms`, when it last went lower than ever since `top`, or higher than ever since `low`, by a
 *          NEAR_PART of `fallen` and by a STEP
 *
 * Free blocks do not count as in use, even if their slabs also hold blocks in use. A program that frees its heap at
 * random empties hardly any slab before its last frees, and then all at once. If only empty slabs counted as free, no
 * later call would give them back; and a cache that keeps one block in a hundred would keep most slabs.
 *
 * Memory may also be free in gaps between blocks in use, while the sum in use hardly falls: the next blocks do not fit
 * into the gaps, or belong to another tier. That such memory should have been kept shows only when as much memory is
 * touched after it was given back.
 *
 * A heap is being emptied when little of what is committed is in use, and less at each look; and when most of what was in
 * use before this fall is gone, or less is in use than at the end of any earlier fall. Without the last condition, a
 * program that was large once, and whose blocks are strewn over many slabs, would seem to end with each of its waves.
 *
 *   lowest least in use since a FULL_PART of what is committed was, without the present fall;  least  the same with it
 *   given  bytes that frees have given back, and that were not touched again
 *   missed bytes that were touched again, at most what is in use. They are kept in addition, up to a MISSED_PART of
 *          what is in use
 *   kept   = max(LEAST, peak / PART, swing) + min(missed, used / MISSED_PART), but at most a SOFT_PART of LIMIT_SOFT if
 *          there is one; STEP if the delay is 0. All summands but LEAST sink with time */
#include "thread/purge_ahead.h"

#include "commit/commit.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "shard/shard.h"

enum {
    LEAST = 16 * 1024 * 1024, /* bytes that are kept unless the delay is 0 */
    PART = 64,                /* of the recent peak */
    MISSED_PART = 2,          /* of memory in use */
    SOFT_PART = 16,           /* of LIMIT_SOFT: no more is kept, else a swing would cross it */
    EMPTY_PART = 8,           /* of what is committed, or of a fall: little */
    FULL_PART = 2,            /* of what is committed: much */
    MORE_PART = 8,     /* of what may be kept: a heap that has no more pages need not be emptied */
    NEAR_PART = 8,     /* of a fall: memory in use that moves by less stays where it is */
    STEP = 512 * 1024, /* less is not worth a piece, and is kept in any case */
    LOOK_MS = 10,      /* a look no sooner, unless what is in use has changed by... */
    LOOK_PART = 8,     /* ...this part of it, and a STEP */
    INTERVAL_MS = 250,
    INTERVALS_MOST = 32, /* after so many 1.4 % are left of what was learnt */
    DOUBLINGS_MOST = 6,  /* of an interval: 16 s */
};

/* Of the owner, and written with each of its looks; others read the first three. */
static struct {
    _Atomic size_t kept;                  /* what may be kept now; 0: LEAST */
    _Atomic bool falls;                   /* see hak_purge_ahead_falls */
    _Atomic bool rests;                   /* see hak_purge_ahead_rests */
    bool has_doubled;                     /* for the present swing */
    bool missed_has_sunk;                 /* since it doubled last */
    unsigned doublings, missed_doublings; /* of the interval in which each of the two sinks */
    size_t peak, swing, expected;
    size_t low, fallen, top; /* of memory in use: see above; top: the most since it last rose */
    size_t level, mark;
    size_t lowest, least; /* see above; 0: not known */
    size_t rested;        /* in use when it last had stayed where it was; 0 after a rise by LEAST */
    size_t given, missed;
    size_t committed_then; /* at the last look, or when the last was given */
    uint64_t peak_sunk_ms, swing_sunk_ms, missed_sunk_ms, mark_ms;
} ahead HAK_OWN_LINE;

/* Of the last look: the owner writes, all read. */
static struct {
    _Atomic uint64_t ms;
    _Atomic size_t used;
} seen HAK_OWN_LINE;

/* Huge blocks that HUGE_CACHE lets a program keep do not count: it has said how much. */
static HAK_COMMON size_t dirty_now(void) {
    bool is_fixed = hak_option(HAK_OPTION_HUGE_CACHE) >= 0;
    return hak_pool_purgeable() * HAK_UNIT_SIZE + hak_large_idle_about() +
           (is_fixed ? 0 : hak_load_relaxed(&hak_huge_stats.kept_bytes));
}

static size_t may_keep(void) {
    const size_t most = hak_load_relaxed(&ahead.kept);
    return most ? most : LEAST;
}

HAK_COMMON size_t hak_purge_ahead_excess(void) {
    size_t dirty = dirty_now(), most = may_keep();
    return dirty > most + STEP ? dirty - most : 0;
}

/* Bytes of free blocks in slabs. 0 in a program with threads: it has many bins, which other CPUs write, and it gets a
 * helper. */
static size_t spare_now(void) {
    return hak_os_is_single_threaded() ? hak_shard_spare_bytes(hak_shard_here()) : 0;
}

/* Units of a large heap count as used even if all of their pages have gone back. Memory without pages is not in use, so
 * the sum is cut off at what is committed. */
static size_t in_use(void) {
    size_t pool = hak_load_relaxed(&hak_pool_stats.used_units) * HAK_UNIT_SIZE;
    size_t free_inside = hak_large_idle_about() + spare_now();
    size_t most = pool - hak_min(pool, free_inside) + hak_huge_bytes();
    return hak_min(most, hak_commit_bytes());
}

/* Number of intervals that have passed, at most INTERVALS_MOST. A thread may have read the clock and become the owner
 * later than another one that read it after that; then the answer is 0. */
static unsigned passed(uint64_t *last_ms, uint64_t now_ms, unsigned interval_ms) {
    if (now_ms < *last_ms) return 0;
    uint64_t intervals = (now_ms - *last_ms) / interval_ms;
    *last_ms += intervals * interval_ms;
    return (unsigned)hak_min(intervals, INTERVALS_MOST);
}

static size_t sunk(size_t value, unsigned intervals) {
    while (intervals--) value -= value / 8;
    return value;
}

static void sink(uint64_t now_ms) {
    ahead.peak = sunk(ahead.peak, passed(&ahead.peak_sunk_ms, now_ms, INTERVAL_MS));
    ahead.swing =
        sunk(ahead.swing, passed(&ahead.swing_sunk_ms, now_ms, INTERVAL_MS << ahead.doublings));
    const unsigned intervals =
        passed(&ahead.missed_sunk_ms, now_ms, INTERVAL_MS << ahead.missed_doublings);
    ahead.given = sunk(ahead.given, intervals);
    ahead.missed = sunk(ahead.missed, intervals);
    ahead.missed_has_sunk |= intervals != 0 && ahead.missed >= STEP;
    if (ahead.swing < LEAST) ahead.doublings = 0;
    if (ahead.missed < STEP) ahead.missed_doublings = 0;
}

/* Memory that was committed since the last look is touched for the first time, or again. Up to the amount that was given
 * back it counts as missed, although units that were given back may not have served, for instance, a huge block. */
static void follow_missed(size_t used) {
    size_t now = hak_commit_bytes(),
           again = hak_min(ahead.given, now - hak_min(now, ahead.committed_then));
    ahead.committed_then = now;
    ahead.given -= again;
    ahead.missed = hak_min(ahead.missed + again, used);
    if (again < STEP || !ahead.missed_has_sunk) return;
    ahead.missed_doublings += ahead.missed_doublings < DOUBLINGS_MOST;
    ahead.missed_has_sunk = false;
}

static void set_mark(size_t used, uint64_t now_ms) {
    ahead.mark = used;
    ahead.mark_ms = hak_max(ahead.mark_ms, now_ms);
}

/* For PURGE_DELAY_MS no more than `level` was in use, though `top` had been before. What was given back until now does
 * not count as missed if the program needs memory later. */
static void rest(size_t used, uint64_t now_ms) {
    size_t unused = ahead.top - ahead.level;
    ahead.swing -= hak_min(ahead.swing, unused);
    if (unused >= STEP) ahead.given = 0;
    ahead.top = ahead.level;
    ahead.fallen = ahead.top - ahead.low;
    ahead.level = hak_max(ahead.low, hak_min(used, ahead.top));
    ahead.rested = hak_max(used, 1);
    set_mark(used, now_ms);
}

static bool is_at_rest(uint64_t now_ms) {
    const int64_t delay_ms = hak_option(HAK_OPTION_PURGE_DELAY_MS);
    return delay_ms >= 0 && now_ms >= ahead.mark_ms + (uint64_t)delay_ms;
}

/* Notes that memory in use has fallen to `used`, or rises again after a fall. */
static void follow(size_t used, uint64_t now_ms) {
    if (is_at_rest(now_ms)) rest(used, now_ms);
    if (used > ahead.rested + LEAST) ahead.rested = 0;
    const size_t near = hak_max(STEP, ahead.fallen / NEAR_PART);
    if (used < ahead.low) ahead.level = used;
    if (used <= ahead.low) {
        if (ahead.mark > used + near) set_mark(used, now_ms);
        ahead.low = used;
        ahead.fallen = ahead.top - used;
        ahead.expected = hak_max(ahead.swing, LEAST);
        return;
    }
    if (used > ahead.mark + near) set_mark(used, now_ms);
    ahead.level = hak_max(ahead.level, used);
    size_t risen = used - ahead.low, again = hak_min(ahead.fallen, risen);
    ahead.swing = hak_max(ahead.swing, again);
    if (again > ahead.expected + ahead.expected / 8 && !ahead.has_doubled) {
        ahead.doublings += ahead.doublings < DOUBLINGS_MOST;
        ahead.has_doubled = true;
    }
    if (risen < ahead.fallen) return;
    ahead.top = ahead.low = ahead.level = used; /* as high as before: it may fall again */
    ahead.fallen = 0;
    ahead.has_doubled = false;
}

void hak_purge_ahead_gave(size_t bytes) {
    ahead.given += bytes;
    ahead.committed_then = hak_commit_bytes();
}

bool hak_purge_ahead_is_due(uint64_t now_ms) {
    if (now_ms >= hak_load_relaxed(&seen.ms) + LOOK_MS) return true;
    const size_t now = in_use(), then = hak_load_relaxed(&seen.used);
    return (now < then ? then - now : now - then) >= hak_max(STEP, then / LOOK_PART);
}

/* Without what HUGE_CACHE lets the program keep. */
static size_t committed_now(void) {
    const size_t all = hak_commit_bytes(), kept = hak_load_relaxed(&hak_huge_stats.kept_bytes);
    return hak_option(HAK_OPTION_HUGE_CACHE) >= 0 ? all - hak_min(all, kept) : all;
}

/* `most` may be kept. */
static bool is_being_emptied(size_t used, size_t most) {
    const size_t committed = committed_now();
    const bool is_much = used >= committed / FULL_PART;
    if (is_much || !ahead.lowest) ahead.lowest = ahead.least = hak_max(used, 1);
    if (used > ahead.least) ahead.lowest = ahead.least; /* that fall has ended */
    ahead.least = hak_min(ahead.least, used);
    const bool is_end = used + STEP <= ahead.lowest || used < ahead.fallen / EMPTY_PART;
    return is_end && ahead.fallen != 0 && used == ahead.low && used < committed / EMPTY_PART &&
           committed > most + most / MORE_PART;
}

void hak_purge_ahead_look(uint64_t now_ms) {
    size_t used = in_use(), soft = hak_commit_soft_near();
    hak_store_relaxed(&seen.ms, now_ms);
    hak_store_relaxed(&seen.used, used);
    sink(now_ms);
    follow(used, now_ms);
    follow_missed(used);
    ahead.peak = hak_max(ahead.peak, used);
    size_t most = hak_max(LEAST, hak_max(ahead.peak / PART, ahead.swing)) +
                  hak_min(ahead.missed, used / MISSED_PART);
    if (hak_option(HAK_OPTION_PURGE_DELAY_MS) == 0) most = STEP;
    hak_store_relaxed(&ahead.kept, soft ? hak_min(most, soft / SOFT_PART) : most);
    hak_store_relaxed(&ahead.falls, is_being_emptied(used, most));
    hak_store_relaxed(&ahead.rests, ahead.rested != 0);
}

bool hak_purge_ahead_falls(void) { return hak_load_relaxed(&ahead.falls); }

bool hak_purge_ahead_rests(void) { return hak_load_relaxed(&ahead.rests); }

void hak_purge_ahead_forget(void) {
    ahead.peak = ahead.swing = ahead.low = ahead.fallen = ahead.top = 0;
    ahead.lowest = ahead.least = 0;
    ahead.level = ahead.mark = ahead.rested = ahead.given = ahead.missed = 0;
    ahead.doublings = ahead.missed_doublings = 0;
    ahead.has_doubled = ahead.missed_has_sunk = false;
    hak_store_relaxed(&ahead.kept, 0);
    hak_store_relaxed(&ahead.falls, false);
    hak_store_relaxed(&ahead.rests, false);
    hak_store_relaxed(&seen.ms, 0);
}
