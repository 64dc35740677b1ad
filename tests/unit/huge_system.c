/* huge_system.c: huge.c while the system refuses a call or is slow. No block and no foreign mapping may be
 * harmed, and no thread may wait without need. */
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"

#include "commit/commit.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "os/move.h"
#include "os/os.h"
#include "thread/fork.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"
#include "purge.h"

/* ---- the system's calls, as a test wants them ---- */

static unsigned refuse_in; /* calls until one is refused; 0: none is */
static unsigned refused;
static bool refuse_unmaps;
static bool refuse_places;      /* for what is kept */
static unsigned refuse_move_in; /* calls of mremap to a given place until one is refused; 0: none */
static bool refuse_first;       /* such a call is refused before its target is unmapped */
static char *foreign;           /* that target, or what was mapped at once where it was */
static _Thread_local char *sent_to; /* where the next mapping that may move goes */
static atomic_bool unmaps_slowly;
static atomic_bool holds_remaps, remap_goes_on; /* mremap waits for the second one */
static atomic_bool remapping;
static _Atomic(void *) unmapping; /* the last address */

static bool refuse(void) {
    if (refuse_in == 0 || --refuse_in > 0) return false;
    refused++;
    errno = ENOMEM;
    return true;
}

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
    return refuse() ? MAP_FAILED : __real_mmap(at, size, prot, flags, fd, offset);
}
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size) {
    if (atomic_load(&unmaps_slowly)) {
        atomic_store(&unmapping, at);
        usleep(200000);
    }
    return refuse() || refuse_unmaps ? -1 : __real_munmap(at, size);
}
hak_stretch_t *__real_hak_stretches_make_places(void);
hak_stretch_t *__wrap_hak_stretches_make_places(void);
hak_stretch_t *__wrap_hak_stretches_make_places(void) {
    return refuse_places ? NULL : __real_hak_stretches_make_places();
}
void __real_hak_stretches_make_room(hak_stretches_t *part);
void __wrap_hak_stretches_make_room(hak_stretches_t *part);
void __wrap_hak_stretches_make_room(hak_stretches_t *part) {
    if (!refuse_places) __real_hak_stretches_make_room(part);
}
void *__real_mremap(void *at, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *at, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *at, size_t old_size, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = va_arg(more, void *);
    va_end(more);
    if (refuse()) return MAP_FAILED;
    atomic_store(&remapping, true);
    while (atomic_load(&holds_remaps) && !atomic_load(&remap_goes_on)) usleep(1000);
    if (flags & MREMAP_FIXED && refuse_move_in && --refuse_move_in == 0) {
        foreign = to;
        errno = ENOMEM;
        if (refuse_first) return MAP_FAILED;
        foreign = __real_mmap(to, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(foreign, 0x77, size);
        return MAP_FAILED;
    }
    if (flags == MREMAP_MAYMOVE && sent_to) {
        to = sent_to;
        sent_to = NULL;
        return __real_mremap(at, old_size, size, flags | MREMAP_FIXED, to);
    }
    return flags & MREMAP_FIXED ? __real_mremap(at, old_size, size, flags, to)
                                : __real_mremap(at, old_size, size, flags);
}

/* Every block that was served keeps its contents, whatever fails. */
static void script(void) {
    enum { COUNT = 12 };
    char *held[COUNT] = {NULL};
    size_t sizes[COUNT] = {0};
    for (unsigned turn = 0; turn < 100; turn++) {
        unsigned i = unit_random(COUNT);
        size_t size = (1 + unit_random(8)) << 20;
        if (!held[i]) {
            held[i] = hak_huge_alloc(size, 1, turn % 2);
            if (turn % 2 && held[i]) assert_int_equal(held[i][size - 1], 0);
            sizes[i] = held[i] ? size : 0;
        } else if (turn % 3 == 0) {
            char *moved = hak_huge_resize(held[i], size);
            assert_int_equal((moved ? moved : held[i])[0], (char)i);
            if (moved) sizes[i] = size;
            if (moved) held[i] = moved;
        } else {
            assert_int_equal(held[i][0], (char)i);
            assert_int_equal(held[i][sizes[i] - 1], (char)i);
            assert_true(hak_huge_free(held[i]));
            held[i] = NULL;
        }
        if (held[i]) held[i][0] = held[i][sizes[i] - 1] = (char)i;
        if (turn % 8 == 0) purge_huge(0);
    }
    for (unsigned i = 0; i < COUNT; i++)
        if (held[i]) assert_true(hak_huge_free(held[i]));
}

static void a_refusal_loses_nothing(void **state) {
    (void)state;
    purge_huge(0);
    size_t charged = hak_commit_bytes(), bytes = hak_huge_bytes();
    for (unsigned index = 1; index < 80; index++) {
        refuse_in = index;
        script();
        refuse_in = 0;
        purge_huge(0); /* a mapping that could not be unmapped is still known */
        assert_int_equal(hak_huge_stats.kept_bytes, 0);
        assert_int_equal(hak_huge_bytes(), bytes);
        REQUIRE(hak_commit_bytes() <= charged + (1 << 20), "%zu bytes charged, %zu before",
                hak_commit_bytes(), charged);
    }
    assert_true(refused > 40);
}

/* More mappings that cannot be unmapped than there is room for stretches at first. */
static void what_cannot_be_unmapped_is_kept(void **state) {
    (void)state;
    enum { COUNT = 1200, SIZE = 1 << 20 };
    static char *held[COUNT];
    purge_huge(0);
    size_t charged = hak_commit_bytes();
    for (unsigned i = 0; i < COUNT; i++) held[i] = hak_huge_alloc(SIZE, 1, false);
    refuse_unmaps = true;
    for (unsigned i = 0; i < COUNT; i += 2) assert_true(hak_huge_free(held[i])); /* all apart */
    purge_huge(0);
    refuse_unmaps = false;
    size_t kept = hak_huge_stats.kept_bytes;
    REQUIRE(kept >= (size_t)COUNT / 2 * SIZE, "%zu bytes are kept of %zu", kept,
            (size_t)COUNT / 2 * SIZE);
    for (unsigned i = 1; i < COUNT; i += 2) assert_true(hak_huge_free(held[i]));
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
    REQUIRE(hak_commit_bytes() <= charged + (1 << 20), "%zu bytes charged, %zu before",
            hak_commit_bytes(), charged);
}

/* The same while each part has only so many places, and no more can be made. What has none is lost until a
 * purge; that is no violation, and all comes back. */
static void lose_with(unsigned places) {
    enum { COUNT = 8, SIZE = 1 << 20 };
    unsigned most[HAK_KEPT_PARTS];
    char *held[COUNT];
    purge_huge(0);
    size_t charged = hak_commit_bytes();
    for (unsigned i = 0; i < COUNT; i++) held[i] = hak_huge_alloc(SIZE, 1, false);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) {
        most[i] = hak_kept_parts[i].most;
        hak_kept_parts[i].most = hak_min(most[i], places);
    }
    refuse_unmaps = refuse_places = true;
    for (unsigned i = 0; i < COUNT; i += 2) assert_true(hak_huge_free(held[i])); /* all apart */
    assert_int_equal(hakmem_verify(), 0);
    refuse_unmaps = refuse_places = false;
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) hak_kept_parts[i].most = most[i];
    for (unsigned i = 1; i < COUNT; i += 2) assert_true(hak_huge_free(held[i]));
    purge_huge(0);
    purge_huge(0);
    assert_int_equal(hakmem_verify(), 0);
    REQUIRE(hak_commit_bytes() <= charged, "%zu bytes charged, %zu before, with %u places",
            hak_commit_bytes(), charged, places);
}

static void what_is_lost_is_charged_and_comes_back(void **state) {
    (void)state;
    lose_with(0);
    lose_with(1);
}

enum { PARTS = 4, PART = 1 << 20 };

/* What the kernel has not unmapped is unmapped; what is another library's stays. */
static void check_target(void) {
    unsigned char core;
    if (refuse_first) {
        REQUIRE(mincore(foreign, 1, &core) != 0 && errno == ENOMEM, "the target is still mapped");
        return;
    }
    for (size_t k = 0; k < PART; k++)
        REQUIRE(foreign[k] == 0x77, "another's memory is changed at %zu", k);
    __real_munmap(foreign, PART);
}

/* A move of several mappings is refused half-way, and what the kernel has unmapped for it is
 * another library's at once, or the kernel has not unmapped it: no contents are lost, none of the other's are
 * touched, and no addresses. */
static void a_move_that_stops_half_way_changes_nothing(void **state) {
    enum { SIZE = PARTS * PART };
    (void)state;
    if (!hak_os_moves_several()) return;
    for (unsigned at = 1; at <= PARTS; at++) {
        purge_huge(0);
        size_t charged = hak_commit_bytes();
        char *longer, *block = hak_huge_alloc(SIZE, 1, false);
        for (unsigned k = 0; k < SIZE; k += 512) block[k] = (char)(1 + k / PART);
        for (unsigned i = 1; i < PARTS; i += 2) /* what differs in this is several mappings */
            assert_int_equal(madvise(block + i * PART, PART, MADV_DONTDUMP), 0);
        foreign = NULL;
        refuse_move_in = at;
        longer = hak_huge_resize(block, 2 * SIZE);
        refuse_move_in = 0;
        REQUIRE(foreign && !longer, "move %u is not refused", at);
        for (size_t k = 0; k < SIZE; k += 512)
            REQUIRE(block[k] == (char)(1 + k / PART), "part %u is refused: byte %zu is %d", at, k,
                    block[k]);
        check_target();
        longer = hak_huge_resize(block, 2 * SIZE);
        assert_non_null(longer);
        for (size_t k = 0; k < 2 * SIZE; k += 512)
            REQUIRE(longer[k] == (k < SIZE ? (char)(1 + k / PART) : 0), "byte %zu is %d", k,
                    longer[k]);
        assert_int_equal(hak_huge_free(longer), 2 * SIZE);
        assert_int_equal(purge_huge(0), 2 * SIZE);
        REQUIRE(hak_commit_bytes() <= charged + (1 << 20), "%zu bytes charged, %zu before",
                hak_commit_bytes(), charged);
    }
}

static void a_move_that_is_refused_at_once_keeps_no_addresses(void **state) {
    refuse_first = true;
    a_move_that_stops_half_way_changes_nothing(state);
    refuse_first = false;
}

/* The pages of one kept mapping are to come to the end of another, and the kernel refuses: no contents of the block that
 * is served instead are old, nothing of another library's is touched, and both are kept. */
static void refuse_a_piece(void) {
    enum { LONG = 3 * PART, SHORT = 2 * PART, WANTED = 7 * PART };
    purge_huge(0);
    size_t charged = hak_commit_bytes();
    hak_huge_free(hak_huge_alloc(LONG + PART + SHORT, 1, false));
    char *first = hak_huge_alloc(LONG, 1, false), *between = hak_huge_alloc(PART, 1, false);
    char *second = hak_huge_alloc(SHORT, 1, false); /* all three lie in a row */
    memset(first, 1, LONG);
    memset(second, 2, SHORT);
    hak_huge_free(first);
    hak_huge_free(second);
    uint64_t mapped = hak_huge_stats.mapped, moved = hak_huge_stats.moved;
    foreign = NULL;
    refuse_move_in = 1;
    char *block = hak_huge_alloc(WANTED, 1, true);
    REQUIRE(refuse_move_in == 0 && foreign, "no move is refused");
    assert_int_equal(hak_huge_stats.mapped, mapped + 1);
    assert_int_equal(hak_huge_stats.moved, moved + 1);
    assert_int_equal(hak_huge_stats.kept_bytes, LONG + SHORT);
    for (size_t k = 0; k < WANTED; k += 512) REQUIRE(block[k] == 0, "byte %zu is %d", k, block[k]);
    if (!refuse_first) {
        for (size_t k = 0; k < SHORT; k++) REQUIRE(foreign[k] == 0x77, "another's is changed");
        __real_munmap(foreign, SHORT);
    }
    hak_huge_free(block);
    hak_huge_free(between);
    purge_huge(0);
    assert_int_equal(hakmem_verify(), 0);
    REQUIRE(hak_commit_bytes() <= charged + PART, "%zu bytes charged, %zu before",
            hak_commit_bytes(), charged);
}

static void a_piece_that_is_not_moved_is_kept(void **state) {
    (void)state;
    if (!hak_os_moves_several()) return;
    for (unsigned first = 0; first < 2; first++) {
        refuse_first = first != 0;
        refuse_a_piece();
    }
    refuse_first = false;
}

/* A filter, from here on. Containers have such ones: debuggers use the call. */
static void refuse_to_read_memory(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void the_same_where_memory_cannot_be_read(void **state) {
    refuse_to_read_memory();
    a_move_that_stops_half_way_changes_nothing(state);
    a_move_that_is_refused_at_once_keeps_no_addresses(state);
}

/* ---- other calls while one waits for the system ---- */

static void *resize_held(void *block) { return hak_huge_resize(block, 16 << 20); }

/* The system takes its time to lengthen a block: nobody waits for that who asks for another one. */
static void resize_meanwhile(const void *context) {
    enum { SIZE = 2 << 20 };
    pthread_t thread;
    void *moved, *start;
    size_t size;
    (void)context;
    purge_huge(0);
    char *behind = hak_huge_alloc(SIZE, 1, false), *block = hak_huge_alloc(SIZE, 1, false);
    memset(block, 5, SIZE);
    atomic_store(&remapping, false);
    atomic_store(&holds_remaps, true);
    CHECK(pthread_create(&thread, NULL, resize_held, block) == 0, "no thread");
    while (!atomic_load(&remapping)) usleep(1000);
    CHECK(hak_huge_size(behind) == SIZE, "another block is unknown");
    CHECK(hak_huge_find(behind + 5000, &start, &size) && start == behind, "it is not found");
    CHECK(hak_huge_free(block) == 0, "a block in hand is freed");
    CHECK(!hak_huge_resize(block, SIZE), "a block in hand is resized");
    CHECK(hak_huge_count() == 2, "%zu blocks", hak_huge_count());
    char *held[40]; /* more than the table has slots for at first */
    for (unsigned i = 0; i < 40; i++) CHECK(held[i] = hak_huge_alloc(SIZE, 1, true), "no block");
    for (unsigned i = 0; i < 40; i++) CHECK(hak_huge_free(held[i]) == SIZE, "not freed");
    atomic_store(&remap_goes_on, true);
    pthread_join(thread, &moved);
    CHECK(moved && hak_huge_size(moved) == 16 << 20, "not resized");
    CHECK(moved == block || hak_huge_size(block) == 0, "the old address is known");
    for (unsigned k = 0; k < SIZE; k++) CHECK(((char *)moved)[k] == 5, "byte %u is lost", k);
    CHECK(hak_huge_bytes() == SIZE + (16 << 20), "%zu bytes", hak_huge_bytes());
    CHECK(hak_huge_free(moved) && hak_huge_free(behind), "not freed");
}

static void a_resize_holds_nobody_up(void **state) {
    (void)state;
    unit_child(resize_meanwhile, NULL, 20, "calls while a block is resized");
}

/* ---- a place that two blocks had one after the other ---- */

enum { LEFT = 8 << 20, ENTERED = 3 << 20 };
static _Atomic(char *) left; /* the place that the first block had */
static char *far;            /* where the first block goes */
static atomic_int turns;     /* without any order beyond the kernel's */

static void wait_for_turn(int turn) {
    while (atomic_load_explicit(&turns, memory_order_relaxed) < turn) usleep(100);
}

/* The first page from there on whose block is in the table, or is not. */
static char *page_of_table(char *from, const hak_huge_table_t *table, bool is_in_it) {
    while ((hak_huge_table_of((uintptr_t)from) == table) != is_in_it) from += 4096;
    return from;
}

static void *leave_place(void *result) {
    hakmem_free(hakmem_malloc(1)); /* a thread's record, and with it its own post at the gate */
    wait_for_turn(1);
    char *block = hak_huge_alloc(LEFT, 1, false), *to;
    to = page_of_table(far, hak_huge_table_of((uintptr_t)block), true);
    atomic_store_explicit(&left, block, memory_order_relaxed);
    memset(block, 1, LEFT);
    sent_to = to;
    block = hak_huge_resize(block, 8 * LEFT);
    REQUIRE(block == to, "the first block is at %p, not at %p", (void *)block, (void *)to);
    atomic_store_explicit(&turns, 2, memory_order_relaxed);
    wait_for_turn(3);
    for (size_t i = 0; i < LEFT; i++) REQUIRE(block[i] == 1, "byte %zu is %d", i, block[i]);
    hak_huge_free(block);
    return result;
}

static void *enter_place(void *result) {
    enum { COUNT = 16 };
    char *blocks[COUNT], *place, *block;
    const hak_huge_table_t *table;
    unsigned at = 0;
    hakmem_free(hakmem_malloc(1));
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_huge_alloc(ENTERED - 4096, 1, false);
    atomic_store_explicit(&turns, 1, memory_order_relaxed);
    wait_for_turn(2);
    place = atomic_load_explicit(&left, memory_order_relaxed);
    table = hak_huge_table_of((uintptr_t)place);
    while (hak_huge_table_of((uintptr_t)blocks[at]) == table) REQUIRE(++at < COUNT, "one table");
    block = blocks[at];
    memset(block, 2, ENTERED - 4096);
    place = page_of_table(place + LEFT / 4, table, false);
    sent_to = place;
    block = hak_huge_resize(block, ENTERED);
    REQUIRE(block == place, "the second block is at %p, not at %p", (void *)block, (void *)place);
    for (size_t i = 0; i < ENTERED; i++)
        REQUIRE(block[i] == (i < ENTERED - 4096 ? 2 : 0), "byte %zu is %d", i, block[i]);
    memset(block, 3, ENTERED);
    blocks[at] = block;
    for (unsigned i = 0; i < COUNT; i++) hak_huge_free(blocks[i]);
    atomic_store_explicit(&turns, 3, memory_order_relaxed);
    return result;
}

/* A thread sanitizer does not see that mremap orders the two. They take locks of their own: the tables
 * of the first block's addresses are not those of the second's. */
static void a_place_left_is_another_blocks(void **state) {
    pthread_t first, second;
    (void)state;
    far = __real_mmap(NULL, 16 * LEFT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(far != MAP_FAILED);
    assert_int_equal(pthread_create(&first, NULL, leave_place, NULL), 0);
    assert_int_equal(pthread_create(&second, NULL, enter_place, NULL), 0);
    assert_int_equal(pthread_join(first, NULL), 0);
    assert_int_equal(pthread_join(second, NULL), 0);
}

/* ---- fork ---- */

static void *purge(void *unused) {
    purge_huge(0);
    return unused;
}

/* Another thread is in munmap: the child has the mapping no more, or still knows it. */
static void fork_while_unmapping(const void *context) {
    enum { SIZE = 6 << 20 };
    pthread_t thread;
    unsigned char resident;
    int status;
    (void)context;
    hak_fork_install();
    CHECK(hak_huge_free(hak_huge_alloc(SIZE, 1, false)), "no huge block");
    atomic_store(&unmaps_slowly, true);
    CHECK(pthread_create(&thread, NULL, purge, NULL) == 0, "no thread");
    while (!atomic_load(&unmapping)) usleep(1000);
    pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&unmaps_slowly, false);
        purge_huge(0);
        bool mapped = mincore(atomic_load(&unmapping), 1, &resident) == 0;
        syscall(SYS_exit_group, (int)mapped); /* a sanitizer's exit would miss the thread */
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    CHECK(status == 0, "the child has a mapping that it does not know of");
    pthread_join(thread, NULL);
}

static void a_fork_loses_no_mapping(void **state) {
    (void)state;
    unit_child(fork_while_unmapping, NULL, 20, "fork while unmapping");
}

static void *purge_as_owner(void *unused) {
    hak_purge_round(0);
    return unused;
}

static void *trim(void *unused) {
    hak_purge_all();
    return unused;
}

static size_t limit_bytes;

/* Something is always committed, so there is no room for as many bytes as the limit. */
static void *request_in_vain(void *unused) {
    CHECK(hakmem_malloc(limit_bytes) == NULL, "the limit lets everything through");
    return unused;
}

/* The limit leaves room for the request as soon as what is being unmapped is gone. */
static void request_while_unmapping(const void *context) {
    enum { SIZE = 40 << 20, ROOM = 16 << 20, LARGER = 48 << 20 };
    void *(*const *unmap)(void *) = context;
    pthread_t thread;
    char limit[24];
    hakmem_free(hakmem_malloc(1));
    CHECK(hak_huge_free(hak_huge_alloc(SIZE, 1, false)), "no huge block");
    limit_bytes = hak_commit_bytes() + ROOM;
    snprintf(limit, sizeof limit, "%zu", limit_bytes);
    CHECK(hakmem_option_set("LIMIT", limit) == 0, "no limit");
    atomic_store(&unmapping, NULL);
    atomic_store(&unmaps_slowly, true);
    CHECK(pthread_create(&thread, NULL, *unmap, NULL) == 0, "no thread");
    while (!atomic_load(&unmapping)) usleep(1000);
    atomic_store(&unmaps_slowly, false);
    CHECK(hakmem_malloc(LARGER) != NULL, "a request is refused while enough is being unmapped");
    pthread_join(thread, NULL);
}

static void a_request_waits_for_what_goes_back(void **state) {
    static void *(*const unmaps[])(void *) = {purge_as_owner, trim, request_in_vain};
    (void)state;
    unit_child(request_while_unmapping, &unmaps[0], 20, "a request beside a purge");
    unit_child(request_while_unmapping, &unmaps[1], 20, "a request beside a trim");
    unit_child(request_while_unmapping, &unmaps[2], 20, "a request beside one that is refused");
}

int main(int argc, char **argv) {
    static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_left_is_another_blocks),
        cmocka_unit_test(a_refusal_loses_nothing),
        cmocka_unit_test(what_cannot_be_unmapped_is_kept),
        cmocka_unit_test(what_is_lost_is_charged_and_comes_back),
        cmocka_unit_test(a_move_that_stops_half_way_changes_nothing),
        cmocka_unit_test(a_move_that_is_refused_at_once_keeps_no_addresses),
        cmocka_unit_test(a_piece_that_is_not_moved_is_kept),
        cmocka_unit_test(a_resize_holds_nobody_up),
        cmocka_unit_test(a_fork_loses_no_mapping),
        cmocka_unit_test(a_request_waits_for_what_goes_back),
        cmocka_unit_test(the_same_where_memory_cannot_be_read), /* the last: the filter stays */
    };
    return cmocka_run_group_tests_name("huge_system", tests, NULL, NULL);
}
