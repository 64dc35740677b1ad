/* unwind.c: the walk of a stack against return addresses that the callers note. */
#include "unit.h"

#include "os/unwind.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/base.h"
#include "child.h"
#include "stack_chain.h"
#include "single_step.h"

typedef void (*chain_function_t)(chain_t *chain, unsigned left);

__attribute__((noinline)) static void walk(chain_t *chain) {
    const void *site = HAK_CALLER();
    chain->found_count = hak_os_unwind(site, chain->found, CHAIN_MOST);
    REQUIRE(chain->found[0] == (uintptr_t)site, "the first frame is not the site");
}

static void require_same(const chain_t *chain, unsigned least) {
    REQUIRE(chain->found_count > least, "%u frames of %u", chain->found_count, chain->count);
    for (unsigned i = 0; i < least; i++)
        REQUIRE(chain->found[1 + i] == chain->expected[chain->count - 1 - i],
                "frame %u of %u is another", 1 + i, chain->found_count);
}

static void check_chain(chain_function_t function, unsigned depth, void (*bottom)(chain_t *)) {
    chain_t chain = {.bottom = bottom};
    function(&chain, depth);
    require_same(&chain, chain.count);
}

static void tables_tell_every_frame(void **state) {
    (void)state;
    for (unsigned depth = 0; depth < 60; depth++) check_chain(chain_by_tables, depth, walk);
}

static void a_second_walk_is_the_same(void **state) {
    (void)state;
    chain_t first = {.bottom = walk}, second = {.bottom = walk};
    chain_t *const chains[] = {&first, &second};
    for (unsigned i = 0; i < 2; i++) chain_by_tables(chains[i], 40);
    assert_int_equal(first.found_count, second.found_count);
    for (unsigned i = 0; i < first.count; i++) assert_int_equal(first.found[i], second.found[i]);
}

/* Two ways come to one place with the same stack pointer; the walk of one is not an answer for the other. */
static void walks_of_other_callers_differ(void **state) {
    (void)state;
    static chain_function_t const functions[] = {chain_by_tables, chain_by_pointers};
    for (unsigned i = 0; i < 24; i++) {
        chain_t chain = {.bottom = walk};
        chain_function_t function = functions[i / 12];
        if (i % 3 == 0) {
            function(&chain, 7);
            __asm__ volatile("" : : "r"(&chain), "i"(0) : "memory"); /* two calls, not one */
        } else {
            function(&chain, 7);
            __asm__ volatile("" : : "r"(&chain), "i"(1) : "memory");
        }
        require_same(&chain, chain.count);
    }
}

/* What was kept is another walk's by then. */
static void walk_and_again(chain_t *chain) {
    chain->expected[chain->count++] = (uintptr_t)HAK_CALLER();
    walk(chain);
    chain_t first = *chain;
    check_chain(chain_by_tables, 5, walk);
    walk(chain);
    assert_int_equal(first.found_count, chain->found_count);
    for (unsigned i = 0; i < first.count; i++)
        assert_int_equal(first.found[1 + i], chain->found[1 + i]);
}

static void walks_between_walks_do_not_disturb(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) check_chain(chain_by_tables, 30, walk_and_again);
}

static void frame_pointers_serve_without_tables(void **state) {
    (void)state;
    for (unsigned depth = 0; depth < 60; depth++) check_chain(chain_by_pointers, depth, walk);
}

#if defined(__x86_64__)
/* Calls its fourth argument, as the functions do that Python makes for profilers: they have no tables, and leave the
 * frame pointer alone. */
static const unsigned char trampoline[] = {0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
                                           0xff, 0xd1,             /* call *%rcx */
                                           0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
                                           0xc3};                  /* ret */

static void (*made)(chain_t *, void *, void *, void (*)(chain_t *));

/* Code on a page of its own, which `made` calls. */
enum { CODE_SIZE = 4096 };
static char *make(const unsigned char *bytes, size_t size) {
    char *code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(code != MAP_FAILED);
    memcpy(code, bytes, size);
    memcpy(&made, &code, sizeof made);
    return code;
}

static void through_a_trampoline(chain_t *chain) {
    chain->expected[chain->count++] = (uintptr_t)HAK_CALLER();
    made(chain, NULL, NULL, walk);
    __asm__ volatile("" : : : "memory"); /* no tail call */
}

static void trampolines_are_seen_through(void **state) {
    (void)state;
    char *code = make(trampoline, sizeof trampoline);
    for (unsigned again = 0; again < 2; again++) { /* the second walk is a kept one */
        chain_t chain = {.bottom = through_a_trampoline};
        chain_by_tables(&chain, 20);
        assert_in_range(chain.found[0], (uintptr_t)code, (uintptr_t)code + sizeof trampoline);
        assert_int_equal(chain.expected[chain.count - 1],
                         chain.found[2]); /* found[1] is above it */
        chain.expected[chain.count++] = chain.found[1];
        require_same(&chain, chain.count);
    }
    munmap(code, CODE_SIZE);
}

/* Code without tables that uses the frame pointer for something else: it points to two words of the stack, and
 * the second is no return address. */
static const unsigned char other_use[] = {0x55,             /* push %rbp */
                                          0x48, 0x89, 0xd5, /* mov %rdx, %rbp */
                                          0xff, 0xd1,       /* call *%rcx */
                                          0x5d,             /* pop %rbp */
                                          0xc3};            /* ret */

static void what_is_no_frame_ends_the_walk(void **state) {
    (void)state;
    char *code = make(other_use, sizeof other_use);
    static const uintptr_t no_code[] = {1, 42, 4088, (uintptr_t)1 << 40, UINTPTR_MAX - 7};
    for (unsigned i = 0; i < sizeof no_code / sizeof *no_code; i++) {
        uintptr_t words[2] = {0, no_code[i]};
        chain_t chain = {.bottom = walk};
        made(&chain, NULL, words, walk);
        assert_in_range(chain.found[0], (uintptr_t)code, (uintptr_t)code + sizeof other_use);
    }
    munmap(code, CODE_SIZE);
}

#if defined(HAS_STEPS) && !defined(BY_MAPS)
#define HAS_FEW_STEPS
enum { PAGE_SIZE = 4096, MOST_STEPS = 200, NO_CODE = 0x1234 };

static uintptr_t *page;
static volatile int steps, last_step; /* the page goes away after that one */
static volatile bool steps_on;

static bool step(void) {
    if (steps++ == last_step) munmap(page, PAGE_SIZE);
    return steps_on;
}

static void walk_in_steps(chain_t *chain) {
    steps = 0;
    steps_on = true;
    steps_begin(step);
    walk(chain);
    steps_on = false;
}

/* Walks from code whose frame pointer leads to the page, which goes away after step `last`. Returns the number of steps.
 * No walk begins where another one did: it would repeat that. */
static int walk_to_page(const char *code, int last) {
    static unsigned places;
    chain_t chain = {.bottom = walk};
    char *place = __builtin_alloca(16 * ++places);
    __asm__ volatile("" : : "r"(place));
    void *again = mmap(page, PAGE_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(again, page);
    page[1] = NO_CODE;
    last_step = last;
    made(&chain, NULL, page, walk_in_steps);
    assert_in_range(chain.found[1], (uintptr_t)code, (uintptr_t)code + sizeof other_use);
    assert_true(chain.found_count == 2 || chain.found[2] == NO_CODE);
    return steps;
}

static void *walk_while_it_goes_away(void *code) {
    assert_true((uintptr_t)page > (uintptr_t)&code); /* else no walk goes there */
    walk_to_page(code, INT_MAX);
    const int all = walk_to_page(code, INT_MAX);
    for (int last = all > MOST_STEPS ? all - MOST_STEPS : 0; last < all; last++)
        walk_to_page(code, last);
    return NULL;
}

/* Such a page is another thread's, which unmaps it at any time. It lies above the stack of a thread that is made
 * later. */
static void memory_goes_away_meanwhile(void **state) {
    (void)state;
    pthread_t thread;
    long word = 1, copy = 0;
    const struct iovec to = {&copy, sizeof copy}, from = {&word, sizeof word};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof word)
        skip(); /* a filter refuses it */
    char *code = make(other_use, sizeof other_use);
    page = mmap(NULL, PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(pthread_create(&thread, NULL, walk_while_it_goes_away, code), 0);
    pthread_join(thread, NULL);
    munmap(code, CODE_SIZE);
}
#endif
#endif

/* Of the first frame alone the answer is right; the test is that the walk comes back. */
static void without_both_the_walk_ends(void **state) {
    (void)state;
    for (unsigned depth = 0; depth < 60; depth++) {
        chain_t chain = {.bottom = walk};
        chain_by_nothing(&chain, depth);
        require_same(&chain, 0);
    }
}

static void no_more_than_asked_for(void **state) {
    (void)state;
    uintptr_t frames[4] = {0, 0, 0, 7};
    assert_true(hak_os_unwind(HAK_CALLER(), frames, 3) <= 3);
    assert_int_equal(frames[3], 7);
    assert_int_equal(hak_os_unwind(&frames, frames, 4), 1); /* no such frame */
    assert_int_equal(frames[0], (uintptr_t)&frames);
}

static void *in_thread(void *argument) {
    (void)argument;
    tables_tell_every_frame(NULL);
    return NULL;
}

static void threads_walk_at_once(void **state) {
    (void)state;
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++) pthread_create(&threads[i], NULL, in_thread, NULL);
    for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

/* ---- a stack between two pages that nobody can read ---- */

static ucontext_t outside, inside;

static void in_coroutine(void) {
    check_chain(chain_by_tables, 20, walk);
    check_chain(chain_by_pointers, 20, walk);
    without_both_the_walk_ends(NULL);
}

static void a_small_stack_is_not_left(void **state) {
    (void)state;
    enum { PAGE = 65536, SIZE = 4 * PAGE };
    char *room = mmap(NULL, SIZE + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED && mprotect(room + PAGE, SIZE, PROT_READ | PROT_WRITE) == 0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = room + PAGE;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = &outside;
    makecontext(&inside, in_coroutine, 0);
    swapcontext(&outside, &inside);
    munmap(room, SIZE + 2 * PAGE);
}

/* ---- through the frame of a signal ---- */

static chain_t *interrupted;

static void on_signal(int number) {
    (void)number;
    walk(interrupted);
}

static void raise_one(chain_t *chain) {
    chain->expected[chain->count++] = (uintptr_t)HAK_CALLER();
    interrupted = chain;
    raise(SIGUSR1);
}

static void a_signal_is_seen_through(void **state) {
    (void)state;
    chain_t chain = {.bottom = raise_one};
    signal(SIGUSR1, on_signal);
    chain_by_tables(&chain, 9);
#if defined(__x86_64__)
    unsigned at = 0;
    while (at < chain.found_count && chain.found[at] != chain.expected[chain.count - 1]) at++;
    REQUIRE(at + chain.count <= chain.found_count, "%u frames, and not those of the interrupted",
            chain.found_count);
    for (unsigned i = 0; i < chain.count; i++)
        assert_int_equal(chain.found[at + i], chain.expected[chain.count - 1 - i]);
#endif
    assert_true(chain.found_count > 0);
}

/* ---- where few system calls are allowed ---- */

static void walk_under_a_filter(const void *context) {
    (void)context;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no right to a filter");
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "no filter");
    check_chain(chain_by_tables, 40, walk);
}

/* A filter that allows what an allocator needs refuses the calls about signals. */
static void a_walk_needs_no_call_about_signals(void **state) {
    (void)state;
    child_must_succeed(walk_under_a_filter, NULL, 20, "a walk under a filter");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_tell_every_frame),
        cmocka_unit_test(a_second_walk_is_the_same),
        cmocka_unit_test(walks_of_other_callers_differ),
        cmocka_unit_test(walks_between_walks_do_not_disturb),
        cmocka_unit_test(frame_pointers_serve_without_tables),
#if defined(__x86_64__)
        cmocka_unit_test(trampolines_are_seen_through),
        cmocka_unit_test(what_is_no_frame_ends_the_walk),
#endif
#ifdef HAS_FEW_STEPS
        cmocka_unit_test(memory_goes_away_meanwhile),
#endif
        cmocka_unit_test(without_both_the_walk_ends),
        cmocka_unit_test(no_more_than_asked_for),
        cmocka_unit_test(threads_walk_at_once),
        cmocka_unit_test(a_small_stack_is_not_left),
        cmocka_unit_test(a_signal_is_seen_through),
        cmocka_unit_test(a_walk_needs_no_call_about_signals),
    };
    watchdog(100, "a stack test hangs");
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
