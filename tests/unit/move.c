/* move.c: a realloc that moves a block, interrupted at each of its instructions by a handler that allocates and writes
 * what it gets: the copy is whole all the same. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "hakmem.h"
#include "single_step.h"

#if defined(HAS_STEPS) && !HAKMEM_DEBUG
#define HAS_FEW_STEPS
enum { STEPS = 250, SPARE = 40, BYTE = 0xa5, OTHER = 0x5a };

static volatile int steps_to_go;
static size_t from, to;
static unsigned interrupted;

static void write_some(size_t size) {
    void *block = hakmem_malloc(size);
    memset(block, OTHER, size);
    hakmem_free(block);
}

static bool step(void) {
    if (steps_to_go-- > 0) return true;
    write_some(from);
    write_some(to);
    interrupted++;
    return false;
}

/* So that neither the move nor the handler makes a slow call; the first blocks of a class are of the class above. */
static void fill_magazine(size_t size) {
    void *blocks[SPARE];
    for (int i = 0; i < SPARE; i++) blocks[i] = hakmem_malloc(size);
    for (int i = 0; i < SPARE; i++) hakmem_free(blocks[i]);
}

static void check_move(int steps) {
    fill_magazine(from);
    fill_magazine(to);
    unsigned char *block = hakmem_malloc(from);
    memset(block, BYTE, from);
    steps_to_go = steps;
    steps_begin(step);
    unsigned char *moved = hakmem_realloc(block, to);
    while (steps_to_go >= 0) { /* the remaining steps */
    }
    assert_ptr_not_equal(moved, block);
    for (size_t i = 0; i < from && i < to; i++)
        if (moved[i] != BYTE) fail_msg("%zu to %zu bytes, step %d: byte %zu", from, to, steps, i);
    hakmem_free(moved);
}

static void a_handler_gets_neither_block(void **state) {
    (void)state;
    static const size_t sizes[][2] = {{16, 32},  {48, 96},    {64, 200},
                                      {96, 192}, {1024, 300}, {300, 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        from = sizes[i][0], to = sizes[i][1];
        for (int steps = 0; steps < STEPS; steps++) check_move(steps);
    }
    assert_int_equal(interrupted, STEPS * sizeof sizes / sizeof *sizes);
}
#endif

static void nothing_is_left_of_a_block_of_no_size(void **state) {
    (void)state;
    for (size_t size = 1; size <= 2048; size += 13)
        assert_null(hakmem_realloc(hakmem_malloc(size), 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
#ifdef HAS_FEW_STEPS
        cmocka_unit_test(a_handler_gets_neither_block),
#endif
        cmocka_unit_test(nothing_is_left_of_a_block_of_no_size),
    };
    watchdog(100, "a move hangs");
    return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
