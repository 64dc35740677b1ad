/* The scripts leave no block behind. Each block carries its number at both ends, and loses neither. */
#define _GNU_SOURCE
#include "os_scripts.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "hakmem.h"
#include "os_calls.h"

enum { BLOCKS = 48, THREADS = 3, ENDS = 8, WAVE = 1200 };
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static atomic_ulong refused;

unsigned long os_scripts_refused(void) { return atomic_exchange(&refused, 0); }

/* ---- Blocks ---------------------------------------------------------------------------------- */

struct table {
    unsigned char *blocks[BLOCKS];
    size_t lengths[BLOCKS];
};

static struct table common;

static void check_block(const struct table *table, unsigned i) {
    const unsigned char *block = table->blocks[i], *end = block + table->lengths[i] - ENDS;
    for (unsigned k = 0; k < ENDS; k++)
        CHECK(block[k] == i + 1 && end[k] == i + 1, "block %u of %zu bytes has changed", i,
              table->lengths[i]);
}

/* No call fails with this error: a call that succeeds leaves it, whatever the system refuses meanwhile. */
enum { BEFORE = EDOM };

/* Takes over what a call gave; NULL only with ENOMEM. */
static bool keep(struct table *table, unsigned i, void *block, size_t size, const char *call) {
    if (!block) {
        CHECK(errno == ENOMEM, "%s of %zu bytes: NULL with error %d", call, size, errno);
        atomic_fetch_add(&refused, 1);
        return false;
    }
    CHECK(errno == BEFORE, "%s of %zu bytes: a block, with error %d", call, size, errno);
    table->blocks[i] = block;
    table->lengths[i] = size;
    memset(block, (int)i + 1, ENDS);
    memset((char *)block + size - ENDS, (int)i + 1, ENDS);
    return true;
}

static void take(struct table *table, unsigned i, size_t size) {
    errno = BEFORE;
    keep(table, i, malloc(size), size, "malloc");
}

static void take_zeroed(struct table *table, unsigned i, size_t size) {
    errno = BEFORE;
    unsigned char *block = calloc(1, size);
    /* Of a block of many pages a few hundred places: else most of a run's time is page faults. */
    size_t step = size / 200 > 509 ? size / 200 : 509;
    for (size_t k = 0; block && k < size; k += k < 64 ? 1 : step)
        CHECK(block[k] == 0, "calloc of %zu bytes is not zero at %zu", size, k);
    keep(table, i, block, size, "calloc");
}

static void take_aligned(struct table *table, unsigned i, size_t align, size_t size) {
    void *block = NULL;
    errno = BEFORE;
    int error = posix_memalign(&block, align, size);
    CHECK(error == 0 || (error == ENOMEM && !block), "posix_memalign: error %d", error);
    CHECK((uintptr_t)block % align == 0, "%p is not aligned to %zu", block, align);
    CHECK(errno == BEFORE, "posix_memalign: errno is %d", errno);
    if (error) errno = error;
    keep(table, i, block, size, "posix_memalign");
}

static void resize(struct table *table, unsigned i, size_t size) {
    check_block(table, i);
    errno = BEFORE;
    unsigned char *block = realloc(table->blocks[i], size);
    for (unsigned k = 0; block && k < ENDS; k++) CHECK(block[k] == i + 1, "realloc lost contents");
    if (!keep(table, i, block, size, "realloc")) check_block(table, i);
}

static void release(struct table *table, unsigned i) {
    if (!table->blocks[i]) return;
    check_block(table, i);
    errno = BEFORE;
    free(table->blocks[i]);
    CHECK(errno == BEFORE, "free: errno is %d", errno);
    table->blocks[i] = NULL;
}

static void release_all(struct table *table) {
    for (unsigned i = 0; i < BLOCKS; i++) release(table, i);
}

/* ---- What a script does ---------------------------------------------------------------------- */

/* So many blocks from `least` upwards; then every second one goes, all others, and the memory. */
static void fill(size_t least, size_t step, unsigned count, bool zeroed) {
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < count; i++) {
            if (common.blocks[i]) continue;
            (zeroed ? take_zeroed : take)(&common, i, least + i * step);
        }
        for (unsigned i = 0; i < count; i += 2) release(&common, i);
    }
    release_all(&common);
    malloc_trim(0);
}

static void tiny(void) { fill(16, 40, BLOCKS, false); }
static void mid(void) { fill(2100, 1300, BLOCKS, false); }
static void large(void) { fill(70 * KIB, 37 * KIB, 20, false); }
static void huge(void) { fill(MIB + 1, 3 * MIB, 6, false); }
static void tiny_zeroed(void) { fill(16, 40, BLOCKS, true); }
static void mid_zeroed(void) { fill(2100, 1300, BLOCKS, true); }
static void large_zeroed(void) { fill(70 * KIB, 37 * KIB, 12, true); }
static void huge_zeroed(void) { fill(MIB + 1, MIB, 3, true); }

static void mixed(void) {
    static const size_t sizes[] = {24, 300, 1024, 5000, 40000, 100000, 700000, 2 << 20, 6 << 20};
    for (unsigned turn = 0; turn < 200; turn++) {
        unsigned i = turn * 7 % 40;
        size_t size = sizes[turn * 5 % (sizeof sizes / sizeof *sizes)];
        if (!common.blocks[i])
            (turn % 12 == 0 ? take_zeroed : take)(&common, i, size);
        else if (turn % 2)
            release(&common, i);
        else
            resize(&common, i, size);
        if (turn % 50 == 49) malloc_trim(0);
    }
    release_all(&common);
    malloc_trim(0);
}

static void grow(void) {
    take(&common, 0, 16);
    for (size_t size = 24; common.blocks[0] && size < 20 * MIB; size = size * 2 + 8) {
        resize(&common, 0, size);
        if (size > 40 * KIB) take(&common, 1 + (unsigned)(size % (BLOCKS - 1)), size / 2);
        for (unsigned i = 1; size % 5 == 0 && i < BLOCKS; i++) release(&common, i);
    }
    release_all(&common);
}

static void shrink(void) {
    take(&common, 0, 20 * MIB);
    for (size_t size = 20 * MIB; common.blocks[0] && size >= 16; size = size * 2 / 3)
        resize(&common, 0, size);
    release_all(&common);
}

static void aligned_by(size_t least, size_t most, size_t size) {
    unsigned i = 0;
    for (size_t align = least; align <= most; align *= 2)
        for (unsigned k = 0; k < 3 && i < BLOCKS; k++)
            take_aligned(&common, i++, align, size + k * align);
    release_all(&common);
}
static void aligned(void) { aligned_by(16, 64 * KIB, 100); }
static void aligned_far(void) { aligned_by(128 * KIB, 8 * MIB, 3000); }

/* A heap of some MiB, of which a little stays; its memory goes back, and the same comes again. */
static void waves(void) {
    static unsigned char *many[WAVE];
    for (unsigned wave = 0; wave < 2; wave++) {
        for (unsigned i = 0; i < WAVE; i++) {
            many[i] = malloc(700 + i % 7 * 1000);
            if (many[i])
                many[i][0] = (unsigned char)i;
            else
                atomic_fetch_add(&refused, 1);
        }
        for (unsigned i = 0; i < WAVE; i++) {
            CHECK(!many[i] || many[i][0] == (unsigned char)i, "block %u of a wave has changed", i);
            free(many[i]);
        }
        malloc_trim(0);
    }
}

/* ---- Threads and processes ------------------------------------------------------------------- */

static void *work(void *table) {
    for (unsigned i = 0; i < BLOCKS; i++) take(table, i, 40 + (size_t)i * i * 97);
    for (unsigned i = 0; i < BLOCKS; i += 2) release(table, i);
    return NULL;
}

/* Without memory for what libc keeps for a thread, there is none. */
static bool start(pthread_t *thread, void *(*run)(void *), void *argument) {
    int error = os_calls_thread(thread, run, argument);
    CHECK(error == 0 || error == EAGAIN || error == ENOMEM, "pthread_create: error %d", error);
    if (error) atomic_fetch_add(&refused, 1);
    return !error;
}

/* Threads leave blocks behind, which this thread frees. */
static void threads(void) {
    static struct table tables[THREADS];
    pthread_t all[THREADS];
    bool started[THREADS];
    for (unsigned i = 0; i < THREADS; i++) started[i] = start(&all[i], work, &tables[i]);
    for (unsigned i = 0; i < THREADS; i++)
        if (started[i]) pthread_join(all[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) release_all(&tables[i]);
    malloc_trim(0);
}

static void in_a_child(void (*script)(void)) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        alarm(20 * PATIENCE);
        script();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with %#x",
          (unsigned)status);
}
static void forks(void) {
    take(&common, 0, 5000);
    take(&common, 1, 3 * MIB);
    in_a_child(tiny);
    release_all(&common);
}
/* Not with the common table, which another thread is changing at the time of the fork. */
static void apart(void) {
    static struct table own;
    work(&own);
    release_all(&own);
}
static void *fork_here(void *unused) {
    in_a_child(apart);
    return unused;
}
static void forks_of_threads(void) {
    pthread_t thread;
    threads();
    bool started = start(&thread, fork_here, NULL);
    tiny();
    if (started) pthread_join(thread, NULL);
}

static void figures(void) {
    static char text[1 << 16];
    uint64_t live;
    size_t kept = 0;
    work(&common);
    for (unsigned i = 0; i < BLOCKS; i++) kept += common.blocks[i] ? common.lengths[i] : 0;
    size_t used = mallinfo2().uordblks + mallinfo2().hblkhd; /* without a heap all are mappings */
    CHECK(used >= kept, "%zu bytes are in use, of %zu", used, kept);
    CHECK(hakmem_stats_json(text, sizeof text) > 0, "no statistics");
    CHECK(hakmem_stats_get("total.live", &live) == 0, "no such figure");
    CHECK(hakmem_verify() == 0, "the heap is not in order");
    release_all(&common);
}

static void options(void) {
    static const char *const values[] = {"0", "1000"};
    for (unsigned i = 0; i < 2; i++) {
        CHECK(hakmem_option_set("HAKMEM_PURGE_DELAY_MS", values[i]) == 0, "no such option");
        large();
        mid();
    }
}

static void first(void) {
    tiny();
    mid();
    large();
    huge();
}

const struct os_script os_scripts[] = {
    {"tiny", tiny, NULL},
    {"mid", mid, NULL},
    {"large", large, NULL},
    {"huge", huge, NULL},
    {"tiny_zeroed", tiny_zeroed, NULL},
    {"mid_zeroed", mid_zeroed, NULL},
    {"large_zeroed", large_zeroed, NULL},
    {"huge_zeroed", huge_zeroed, NULL},
    {"mixed", mixed, NULL},
    {"grow", grow, NULL},
    {"shrink", shrink, NULL},
    {"aligned", aligned, NULL},
    {"aligned_far", aligned_far, NULL},
    {"waves", waves, NULL},
    {"threads", threads, NULL},
    {"forks", forks, NULL},
    {"forks_of_threads", forks_of_threads, NULL},
    {"figures", figures, NULL},
    {"options", options, NULL},
    {"first", first, "HAKMEM_STATS=off"},
    {"hardened", mixed, "HAKMEM_PROFILE=HARDENED"},
    {"hardened_shrink", shrink, "HAKMEM_PROFILE=HARDENED"},
    {"hardened_threads", threads, "HAKMEM_PROFILE=HARDENED"},
    {"sampled", tiny, "HAKMEM_GUARD_SAMPLE=2"},
    {"profiled", mixed, "HAKMEM_CONF=PROF:1,PROF_FILE:/dev/null"},
    {"records", mixed, "HAKMEM_HDR_LIGHT=0"},
    {"live", figures, "HAKMEM_LIVE=1"},
    {"purged_at_once", waves, "HAKMEM_PURGE_DELAY_MS=0"},
    {"warm", threads, "HAKMEM_TINY_POLICY_PROFILE=tinyplus_all"},
    {"wide", mixed, "HAKMEM_SS_SIZE=2M"},
    {"no_superslabs", mixed, "HAKMEM_TINY_USE_SUPERSLAB=0"},
    {"prefault", mixed, "HAKMEM_SS_PREFAULT=2"},
    {"limit", mixed, "HAKMEM_LIMIT=64M"},
    {"lowmem", waves, "HAKMEM_PROFILE=LOWMEM"},
    {"server", forks_of_threads, "HAKMEM_PROFILE=SERVER"},
};

const unsigned os_script_count = sizeof os_scripts / sizeof *os_scripts;
