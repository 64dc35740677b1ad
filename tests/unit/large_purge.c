/* large_purge.c: a purge of large heaps among memory that is in use again, or that the kernel does not take. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "hakmem.h"
#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "os/os.h"
#include "pool/pool.h"
#include "purge.h"
#include "region/region.h"
#include "thread/purge_trigger.h"

enum {
    REUSED = 64,
    BEHIND = 24,
    WHOLE = 512 << 10,
    SECONDS = 60,
    PIECE_LOOKS = 64,
    SPLIT_CALLS = 2 * HAK_PURGE_SPLITS
};

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0",
                                        "HAKMEM_PURGE_DELAY_MS=-1", "HAKMEM_SS_SIZE=512K", NULL};

/* ---- a clock and a kernel of the test's own ---- */

static uint64_t later_ms;
static bool refuses;
static const char *taken;  /* what the kernel takes, if it refuses: WHOLE bytes from here */
static const char *locked; /* the one page that it does not take */
static unsigned calls;

uint64_t __real_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return __real_hak_os_now_ms() + later_ms; }

bool __real_hak_os_purge(void *addr, size_t size);
bool __wrap_hak_os_purge(void *addr, size_t size);
bool __wrap_hak_os_purge(void *addr, size_t size) {
    char *start = addr;
    calls++;
    if (locked && start <= locked && locked < start + size) return false;
    if (refuses && (!taken || start < taken || start + size > taken + WHOLE)) return false;
    return __real_hak_os_purge(addr, size);
}

static char *make(size_t size) {
    char *block = hak_large_alloc(0, size, size == WHOLE ? WHOLE : 1, false);
    CHECK(block != NULL, "no memory");
    memset(block, 1, size);
    return block;
}

static void drop(void *block) { CHECK(hak_large_free(0, block) != 0, "no block in use"); }

static void merge_all(void) {
    hak_budget_t none = {0, 0};
    unsigned heap = 0;
    hak_large_purge_piece(&heap, 0, &none);
}

/* ---- what is in use again ---- */

/* Every other of these superslabs was freed and is in use again: they are the first in the list. Behind them are
 * freed blocks, each with one in use beside it. */
static void idle_behind_reused(void) {
    static char *whole[2 * REUSED], *behind[3 * BEHIND];
    for (unsigned i = 0; i < 2 * REUSED; i++) whole[i] = make(WHOLE);
    for (unsigned i = 0; i < 3 * BEHIND; i++) behind[i] = make(WHOLE / 4 * 3);
    purge_large(0);
    for (unsigned i = 0; i < 2 * REUSED; i += 2) drop(whole[i]);
    merge_all();
    later_ms += 5;
    for (unsigned i = 0; i < 3 * BEHIND; i++)
        if (i % 3 != 0) drop(behind[i]);
    merge_all();
    for (unsigned i = 0; i < 2 * REUSED; i += 2) whole[i] = make(WHOLE);
    CHECK(hak_large_idle() >= 2 * BEHIND * (WHOLE / 4 * 3), "%zu bytes idle", hak_large_idle());
}

static void all_goes_back_at_once(const void *unused) {
    (void)unused;
    idle_behind_reused();
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are idle after a purge", hak_large_idle());
}

/* A piece asks the kernel, or ends by its looks: what is in use again costs no more than one. */
static void pieces_pass_over(const void *unused) {
    (void)unused;
    idle_behind_reused();
    for (unsigned piece = 0; piece < (REUSED + 3 * BEHIND) / PIECE_LOOKS + 1; piece++) {
        hak_budget_t budget = {PIECE_LOOKS, SIZE_MAX};
        unsigned heap = 0;
        hak_large_purge_piece(&heap, 0, &budget);
    }
    CHECK(hak_large_idle() == 0, "%zu bytes are idle after pieces", hak_large_idle());
}

/* A heap that has something to give costs a look, and so does a block that merges. */
static void pieces_count_merges(const void *unused) {
    enum { HEAPS = 12, EACH = 2, LOOKS = 9 };
    void *blocks[HEAPS * EACH];
    unsigned heap = 0;
    (void)unused;
    for (unsigned i = 0; i < HEAPS * EACH; i++)
        CHECK((blocks[i] = hak_large_alloc(i / EACH, 72 << 10, 1, false)) != NULL, "no memory");
    for (unsigned i = 0; i < HEAPS * EACH; i++)
        CHECK(hak_large_free(i / EACH, blocks[i]), "no block");
    hak_budget_t some = {LOOKS, SIZE_MAX};
    hak_large_purge_piece(&heap, PIECE_LOOKS * 1000, &some);
    CHECK(heap == LOOKS / (1 + EACH), "a piece of %u looks visits %u heaps", LOOKS, heap);
    unsigned pieces = 1;
    for (; heap < HAK_HEAPS_MAX; pieces++) {
        some = (hak_budget_t){LOOKS, SIZE_MAX};
        hak_large_purge_piece(&heap, PIECE_LOOKS * 1000, &some);
    }
    CHECK(pieces <= 1 + HEAPS * (1 + EACH) / LOOKS, "%u pieces", pieces);
    purge_large(0);
    some = (hak_budget_t){LOOKS, SIZE_MAX};
    heap = 0;
    hak_large_purge_piece(&heap, 0, &some);
    CHECK(heap == HAK_HEAPS_MAX && some.looks == LOOKS,
          "%u heaps without idle memory, %u looks left", heap, some.looks);
}

/* Frees that give back ahead of time come to the last heap, though the kernel takes nothing of those before it. */
static void frees_come_to_all_heaps(const void *unused) {
    enum { HEAPS = 16, EACH = 12, CALLS = 4 * HEAPS * (EACH + 1) / 64 };
    char *blocks[HEAPS * EACH];
    (void)unused;
    for (unsigned i = 0; i < HEAPS * EACH; i++) {
        CHECK((blocks[i] = hak_large_alloc(i / EACH, WHOLE, WHOLE, false)) != NULL, "no memory");
        memset(blocks[i], 1, WHOLE);
    }
    refuses = true;
    taken = blocks[HEAPS * EACH - 1];
    for (unsigned i = 0; i < HEAPS * EACH; i++)
        CHECK(hak_large_free(i / EACH, blocks[i]), "no block");
    CHECK(hakmem_option_set("PURGE_DELAY_MS", "1000") == 0, "no option");
    const size_t idle = hak_large_idle();
    for (unsigned i = 0; i < CALLS; i++) hak_purge_look(1, true);
    CHECK(hak_large_idle() == idle - WHOLE, "%zu bytes idle, then %zu", idle, hak_large_idle());
}

static void what_is_in_use_again_hides_nothing(void **state) {
    (void)state;
    unit_child(all_goes_back_at_once, NULL, SECONDS, "a purge");
    unit_child(pieces_pass_over, NULL, SECONDS, "pieces");
    unit_child(pieces_count_merges, NULL, SECONDS, "merges");
    unit_child(frees_come_to_all_heaps, NULL, SECONDS, "frees");
}

/* ---- what the kernel does not take ---- */

/* Superslabs that the kernel refuses, older than one that it takes. */
static void refused_ones_first(const void *unused) {
    static char *blocks[REUSED];
    (void)unused;
    for (unsigned i = 0; i < REUSED; i++) blocks[i] = make(WHOLE);
    char *last = make(WHOLE);
    for (unsigned i = 0; i < REUSED; i++) drop(blocks[i]);
    merge_all();
    later_ms += 5;
    drop(last);
    merge_all();
    size_t idle = hak_large_idle();
    refuses = true;
    calls = 0;
    hak_budget_t some = {PIECE_LOOKS, SIZE_MAX};
    unsigned heap = 0;
    hak_large_purge_piece(&heap, 0, &some);
    CHECK(calls > 0 && calls <= PIECE_LOOKS / 4 + SPLIT_CALLS, "a piece makes %u calls in vain",
          calls);
    calls = 0;
    CHECK(purge_large(0) == 0, "the kernel took nothing");
    CHECK(calls <= REUSED + 1 + SPLIT_CALLS, "%u calls for %u superslabs", calls, REUSED + 1);
    taken = last;
    CHECK(purge_large(0) == WHOLE, "what is behind locked memory stays");
    CHECK(hak_large_idle() == idle - WHOLE, "%zu bytes idle", hak_large_idle());
    refuses = false;
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are idle, and none is locked", hak_large_idle());
}

static void locked_memory_hides_nothing(void **state) {
    (void)state;
    unit_child(refused_ones_first, NULL, SECONDS, "locked superslabs");
}

/* One locked page keeps a unit or a little more, not the superslab. */
static void one_page_is_locked(const void *unused) {
    (void)unused;
    char *block = make(WHOLE);
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are idle", hak_large_idle());
    locked = block + WHOLE / 3;
    drop(block);
    merge_all();
    calls = 0;
    purge_large(0);
    CHECK(hak_large_idle() <= HAK_UNIT_SIZE, "%zu bytes are idle, one page is locked",
          hak_large_idle());
    CHECK(calls <= 1 + SPLIT_CALLS, "%u calls", calls);
    locked = NULL;
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are idle, and none is locked", hak_large_idle());
}

static void a_locked_page_keeps_little(void **state) {
    (void)state;
    unit_child(one_page_is_locked, NULL, SECONDS, "a locked page");
}

/* Free stretches of at most a unit beside blocks in use. */
static void short_stretches(const void *unused) {
    enum { COUNT = 48, LONG = 132 << 10, SHORT = 76 << 10 };
    static char *blocks[COUNT];
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = make(LONG);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(hak_large_resize(blocks[i], SHORT), "a block does not shrink in place");
    size_t idle = hak_large_idle();
    CHECK(idle >= COUNT / 2 * (size_t)(LONG - SHORT), "%zu bytes idle", idle);
    refuses = true;
    CHECK(purge_large(0) == 0, "the kernel took nothing");
    refuses = false;
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are idle and forgotten", hak_large_idle());
}

/* A piece that has less room than the short stretches of the first superslab comes to the next one. */
static void pieces_pass_short_stretches(const void *unused) {
    enum { COUNT = 48, LONG = 132 << 10, SHORT = 76 << 10, PIECES = 64 };
    static char *blocks[COUNT];
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = make(LONG);
    char *last = make(WHOLE);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(hak_large_resize(blocks[i], SHORT), "a block does not shrink in place");
    refuses = true;
    taken = last;
    merge_all();
    later_ms += 5;
    drop(last);
    merge_all();
    size_t idle = hak_large_idle();
    for (unsigned i = 0; i < PIECES; i++, later_ms++) {
        hak_budget_t some = {PIECE_LOOKS, 2 * HAK_UNIT_SIZE};
        unsigned heap = 0;
        hak_large_purge_piece(&heap, 0, &some);
    }
    CHECK(hak_large_idle() <= idle - WHOLE, "%zu of %zu bytes idle", hak_large_idle(), idle);
}

static void short_stretches_are_not_forgotten(void **state) {
    (void)state;
    unit_child(short_stretches, NULL, SECONDS, "short stretches");
    unit_child(pieces_pass_short_stretches, NULL, SECONDS, "pieces");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_use_again_hides_nothing),
        cmocka_unit_test(locked_memory_hides_nothing),
        cmocka_unit_test(a_locked_page_keeps_little),
        cmocka_unit_test(short_stretches_are_not_forgotten),
    };
    return cmocka_run_group_tests_name("large heaps, purges", tests, NULL, NULL);
}
