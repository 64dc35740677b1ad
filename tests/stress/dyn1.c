/* dyn1.c - the dynamic class saves memory where it is chosen, and the choice disturbs no thread that
 * allocates meanwhile.
 *
 *     dyn1 saves [BLOCKS]     programs with that many blocks of a size that no class fits, each with
 *                             HAKMEM_MID_DYN1=auto, that size, and 0: resident memory, bytes of slabs
 *     dyn1 mixed [BLOCKS]     blocks of 13,000 to 15,000 bytes that come and go, with
 *                             HAKMEM_MID_DYN1=14336, which is a fixed class: no more than with 0
 *     dyn1 races [ROUNDS]     threads that allocate the sizes of the coming class; some fork while it
 *                             is chosen */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "load.h"
#include "proc.h"

/* ---- What it saves ----------------------------------------------------------------------------- */

/* A size between two classes, and the most that the choice may leave of what it takes without: in
 * thousandths of the resident bytes for a block, and of the slabs'. */
static const struct row {
    size_t size, chosen;
    unsigned rss_most, slabs_most;
} rows[] = {
    {4112, 4224, 970, 970},
    {8208, 8320, 970, 1010}, /* seven in a slab, as before; but a page of it is not touched */
    {16400, 16512, 970, 1010},
    {10800, 10880, 990, 860}, /* six instead of five */
    {33000, 0, 1010, 1010},   /* one, and the same nine pages, either way: nothing to choose */
};

struct trial {
    const struct row *row; /* NULL: mixed sizes */
    const char *value;     /* of HAKMEM_MID_DYN1 */
    size_t count;
};

static void **table_of(size_t count) {
    void **blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    memset(blocks, 1, count * sizeof *blocks);
    return blocks;
}

/* Resident and slab bytes of a block, the dynamic class, and its hits. */
static void tell(size_t rss_before_kib, size_t count) {
    size_t rss = (proc_rss_kib() - rss_before_kib) * 1024;
    fprintf(stderr, "%zu %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", rss / count,
            figure("memory.slab_bytes") / count, figure("mid.dyn1_size"), figure("mid.dyn1_hits"));
}

static void hold_blocks(const struct row *row, size_t count) {
    void **blocks = table_of(count);
    size_t before = proc_rss_kib();
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = API(malloc)(row->size)) != NULL, "no memory");
        memset(blocks[i], (int)i, row->size);
    }
    tell(before, count);
    for (size_t i = 0; i < count; i++) {
        unsigned char *block = blocks[i];
        CHECK(block[0] == (i & 255) && block[row->size - 1] == (i & 255), "a block has changed");
        API(free)(block);
    }
}

/* As larson does: any block is freed, and one of another size comes; its ends are written. */
static void hold_mixed(size_t count) {
    enum { LEAST = 13000, MOST = 15000, ROUNDS = 20 };
    unsigned char **blocks = (unsigned char **)table_of(count);
    struct rng rng = rng_make(1);
    size_t before = proc_rss_kib();
    for (size_t i = 0; i < count * ROUNDS; i++) {
        unsigned char **place = &blocks[i < count ? i : rng_below(&rng, count)];
        size_t size = LEAST + rng_below(&rng, MOST - LEAST + 1);
        if (i >= count) API(free)(*place);
        CHECK((*place = API(malloc)(size)) != NULL, "no memory");
        (*place)[0] = (*place)[size - 1] = 1;
    }
    tell(before, count);
}

/* In the child: this program again, with the option, and addresses that do not vary. */
static void run_trial(const void *context) {
    const struct trial *trial = context;
    char row[20], count[20];
    snprintf(row, sizeof row, "%zu", trial->row ? (size_t)(trial->row - rows) : 0);
    snprintf(count, sizeof count, "%zu", trial->count);
    setenv("HAKMEM_MID_DYN1", trial->value, 1);
    setenv("HAKMEM_PURGE_DELAY_MS", "-1", 1); /* no clock */
    personality(ADDR_NO_RANDOMIZE);
    execl("/proc/self/exe", "dyn1", trial->row ? "hold" : "hold_mixed", count, row, (char *)NULL);
}

struct outcome {
    size_t rss, slabs, size, hits; /* the first two for each block */
};

static struct outcome outcome_of(const struct row *row, const char *value, size_t count) {
    struct trial trial = {row, value, count};
    struct child_end end;
    struct outcome outcome = {0, 0, 0, 0};
    child_run(run_trial, &trial, 60, &end);
    CHECK(end.in_time && end.status == 0, "%zu blocks, %s: status %#x: %s", count, value,
          (unsigned)end.status, end.err);
    CHECK(sscanf(end.err, "%zu %zu %zu %zu", &outcome.rss, &outcome.slabs, &outcome.size,
                 &outcome.hits) == 4,
          "no figures in %s", end.err);
    return outcome;
}

/* Of few blocks many are there before `auto` finds their size. */
enum { FEW = 1000, FEW_LEAST = 10000 };

static void check_saved(const struct row *row, size_t slabs_most, struct outcome without,
                        struct outcome with) {
    printf("%zu bytes: RSS a block %zu -> %zu, slab bytes a block %zu -> %zu, class %zu\n",
           row->size, without.rss, with.rss, without.slabs, with.slabs, with.size);
    CHECK(without.size == 0 && with.size == row->chosen, "%zu bytes: the class has %zu", row->size,
          with.size);
    CHECK(with.rss * 1000 <= without.rss * row->rss_most, "%zu bytes: RSS %zu and %zu", row->size,
          without.rss, with.rss);
    CHECK(with.slabs * 1000 <= without.slabs * slabs_most, "%zu bytes: slabs %zu and %zu",
          row->size, without.slabs, with.slabs);
}

static void check_saves(size_t count) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (count <= FEW && row->size < FEW_LEAST) continue;
        struct outcome without = outcome_of(row, "0", count);
        char asked[20];
        snprintf(asked, sizeof asked, "%zu", row->size);
        check_saved(row, count <= FEW ? 1010 : row->slabs_most, without,
                    outcome_of(row, "auto", count));
        if (row->chosen) check_saved(row, row->slabs_most, without, outcome_of(row, asked, count));
    }
}

/* No pages more; but units get colours from their addresses, which vary a little. */
static void check_mixed(size_t count) {
    enum { PAIRS = 5 };
    size_t rss[2] = {0, 0};
    for (int i = 0; i < PAIRS; i++) {
        struct outcome without = outcome_of(NULL, "0", count);
        struct outcome with = outcome_of(NULL, "14336", count);
        printf("%zu mixed blocks: RSS a block %zu -> %zu, slab bytes %zu -> %zu, %zu hits\n", count,
               without.rss, with.rss, without.slabs, with.slabs, with.hits);
        CHECK(with.size == 14336 && with.hits > 0, "the class of %zu has %zu hits", with.size,
              with.hits);
        CHECK(with.slabs == without.slabs, "slab bytes %zu and %zu", without.slabs, with.slabs);
        rss[0] += without.rss, rss[1] += with.rss;
    }
    CHECK(rss[1] * 1000 <= rss[0] * 1015, "RSS %zu and %zu", rss[0] / PAIRS, rss[1] / PAIRS);
}

/* ---- Threads at work while it is chosen --------------------------------------------------------- */

/* Up to 4368 bytes there are fifteen in a slab; 4224 or 4352 is chosen, by the mixture. */
enum { THREADS = 4, SLOTS = 700, SIZE = 4112, LEAST = 4224, MOST = 4352 };

static unsigned long rounds;
static pthread_barrier_t at_once;

/* A block keeps its contents over the borders of the class, in both directions. */
static void resize(struct load_slot *slot, size_t size) {
    unsigned char mark = slot->block[0];
    slot->block = API(realloc)(slot->block, size);
    CHECK(slot->block && slot->block[0] == mark, "realloc to %zu lost a block", size);
    CHECK(API(malloc_usable_size)(slot->block) >= size, "too short for %zu", size);
    slot->size = size;
    slot->block[0] = slot->block[size - 1] = load_mark(slot);
}

static void fill(struct rng *rng, struct load_slot *slot) {
    slot->size = rng_below(rng, 4) ? SIZE : 4000 + rng_below(rng, 600);
    bool zero = rng_below(rng, 8) == 0;
    slot->block = zero ? API(calloc)(1, slot->size) : API(malloc)(slot->size);
    CHECK(slot->block != NULL, "malloc(%zu) gave NULL", slot->size);
    for (size_t i = 0; zero && i < slot->size; i++) CHECK(!slot->block[i], "calloc is not zero");
    CHECK(API(malloc_usable_size)(slot->block) >= slot->size, "too short for %zu", slot->size);
    slot->block[0] = slot->block[slot->size - 1] = load_mark(slot);
}

/* Asked now and then: where threads run one after the other, it takes all of them longer. */
static bool is_chosen(unsigned long round) {
    return round % 1024 == 0 && figure("mid.dyn1_size") != 0;
}

static void *work(void *argument) {
    static const size_t borders[] = {4096, 4097, LEAST, LEAST + 1, MOST, MOST + 1};
    struct rng rng = rng_make((uintptr_t)argument);
    struct load_slot slots[SLOTS] = {{NULL, 0}};
    pthread_barrier_wait(&at_once);
    for (unsigned long round = 0; round < rounds || (round < 100 * rounds && !is_chosen(round));
         round++) {
        struct load_slot *slot = &slots[rng_below(&rng, SLOTS)];
        if (!slot->block)
            fill(&rng, slot);
        else if (rng_below(&rng, 4) == 0)
            resize(slot, borders[rng_below(&rng, 6)]);
        else if (round < rounds / 2 && rng_below(&rng, 2))
            continue;
        else
            load_free(slot);
    }
    for (int i = 0; i < SLOTS; i++) load_free(&slots[i]);
    return NULL;
}

/* In a child of a fork: the class is as it was at that moment, or becomes one here. */
static void check_in_child(void) {
    for (int i = 0; i < 4000; i++) {
        struct load_slot slot = {.block = API(malloc)(SIZE), .size = SIZE};
        CHECK(slot.block != NULL, "no memory in the child");
        slot.block[0] = slot.block[SIZE - 1] = load_mark(&slot);
        if (i % 2) load_free(&slot);
    }
    _exit(0);
}

static void fork_in_the_middle(void) {
#if !defined(TEST_PREFIXED)
    for (int i = 0; i < 5; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0, "no child");
        if (pid == 0) check_in_child();
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %#x",
              (unsigned)status);
    }
#else
    (void)check_in_child; /* the locks of a sanitizer's own allocator do not survive it */
#endif
}

static void check_races(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&at_once, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    pthread_barrier_wait(&at_once);
    fork_in_the_middle();
    for (int i = 0; i < THREADS; i++) {
        figure("mid.dyn1_size"); /* who looks at all classes meanwhile */
        pthread_join(threads[i], NULL);
    }
    uint64_t size = figure("mid.dyn1_size");
    CHECK(size == LEAST || size == MOST, "the class has %" PRIu64, size);
    CHECK(figure("mid.dyn1_hits") > 0, "nobody used it");
    CHECK(figure("classes.dyn1.live") == 0, "%" PRIu64 " blocks are left",
          figure("classes.dyn1.live"));
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    rounds = argument(argc, argv, 2, 20000);
    if (strcmp(mode, "hold") == 0) {
        hold_blocks(&rows[argument(argc, argv, 3, 0)], rounds);
        return 0;
    }
    if (strcmp(mode, "hold_mixed") == 0) {
        hold_mixed(rounds);
        return 0;
    }
    watchdog(200, "the dynamic class");
    require_hakmem();
    if (strcmp(mode, "saves") == 0)
        check_saves(rounds);
    else if (strcmp(mode, "mixed") == 0)
        check_mixed(rounds);
    else
        check_races();
    return 0;
}
