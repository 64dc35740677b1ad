/* stats_steps.c: a signal handler asks for statistics after each instruction of calls of the allocator, and of
 * statistics themselves. It gets figures, or the word that there are none, and never waits for its own thread.
 * With an argument the dose is long. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hakmem.h"
#include "single_step.h"

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};

#ifdef HAS_STEPS

enum { BLOCKS_MOST = 300, SECONDS = 60 };

static unsigned asks = 40, block_count = 30; /* the long dose has 300 of each */
static unsigned call_count = 2;              /* the long dose has all four */
static long steps, all_steps;
static unsigned told, refused;
static FILE *stream;

/* The same answer of each function. */
static void ask(void) {
    static char text[64];
    uint64_t value = 0;
    const int error = hakmem_stats_get("total.live_bytes", &value);
    const bool is_told = error == 0;
    CHECK(is_told || error == EDEADLK, "error %d at step %ld", error, steps);
    CHECK((hakmem_stats_json(text, sizeof text) > 0) == is_told, "step %ld: JSON '%s'", steps,
          text);
    CHECK((strlen(text) > 0) == is_told, "step %ld: JSON '%s'", steps, text);
    CHECK((hakmem_mallinfo2().arena > 0) == is_told, "mallinfo2 at step %ld", steps);
    errno = 0;
    CHECK((hakmem_malloc_info(0, stream) == 0) == is_told, "malloc_info at step %ld", steps);
    CHECK(is_told || errno == EDEADLK, "errno %d of malloc_info at step %ld", errno, steps);
    hakmem_malloc_stats();
    (void)hakmem_verify();
    *(is_told ? &told : &refused) += 1;
}

static bool step(void) {
    steps++;
    if (all_steps && steps % (all_steps / (long)asks + 1) == 0) ask();
    return !all_steps || steps <= all_steps;
}

static void allocate(void) {
    static void *blocks[BLOCKS_MOST];
    for (unsigned i = 0; i < block_count; i++) blocks[i] = hakmem_malloc(i % 2 ? 1500 : 30000);
    for (unsigned i = 0; i < block_count; i++) hakmem_free(blocks[i]);
    hakmem_free(hakmem_malloc(100000));
    hakmem_free(hakmem_realloc(hakmem_malloc((size_t)3 << 20), (size_t)5 << 20));
}

static void get(void) {
    uint64_t value;
    CHECK(hakmem_stats_get("total.live_bytes", &value) == 0, "no figures outside a handler");
}
static void print(void) { hakmem_malloc_stats(); }
static void check(void) { CHECK(hakmem_verify() == 0, "a violation"); }

typedef struct {
    void (*call)(void);
} interrupted_t;

static void ask_within(const void *context) {
    const interrupted_t *interrupted = context;
    const int messages = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    stream = fopen("/dev/null", "w");
    CHECK(stream && setvbuf(stream, NULL, _IONBF, 0) == 0, "no stream");
    dup2(nowhere, STDERR_FILENO);
    void *kept = hakmem_malloc(100);
    interrupted->call();
    steps_begin(step);
    interrupted->call();
    all_steps = steps;
    steps = 0;
    steps_begin(step);
    interrupted->call();
    steps = all_steps + 1;
    get();
    dup2(messages, STDERR_FILENO);
    hakmem_free(kept);
    CHECK(refused > 0, "there are always figures");
    CHECK(told > 0 || interrupted->call != allocate, "there are never figures");
}

static void a_handler_may_ask(void **state) {
    static const interrupted_t each[] = {{allocate}, {get}, {print}, {check}};
    (void)state;
    for (size_t i = 0; i < call_count; i++)
        unit_child(ask_within, &each[i], SECONDS, "a handler that asks");
}
#endif

int main(int argc, char **argv) {
    unit_need_environment(argv, variables);
#ifdef HAS_STEPS
    if (argc > 1) {
        asks = block_count = BLOCKS_MOST;
        call_count = 4;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_handler_may_ask)};
    return cmocka_run_group_tests_name("stats_steps", tests, NULL, NULL);
#else
    (void)argc;
#endif
}
