/* pair.c - the loop in which instructions are counted.
 *
 *     pair hakmem|nothing COUNT [BATCH]
 *     pair usable|stay|move|few COUNT
 *
 * COUNT times: BATCH blocks of 64 bytes are allocated, then freed. "nothing" calls two functions of
 * known length instead, so that the cost of the loop can be subtracted. "usable" asks COUNT times for
 * the usable size of a block; "stay" calls realloc with a size that needs no change, "move" with sizes
 * that do, in turn; "few" also, with fewer bytes. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define BATCH_LIMIT 64

/* Together NOTHING_LENGTH instructions (see instructions.py), whatever the compiler's options. */
#if defined(__x86_64__)
__asm__(".globl nothing_allocate, nothing_free\n"
        "nothing_allocate: mov %rdi, %rax\n ret\n"
        "nothing_free: ret\n");
#elif defined(__aarch64__)
__asm__(".globl nothing_allocate, nothing_free\n"
        "nothing_allocate: nop\n ret\n"
        "nothing_free: ret\n");
#else
#error "write the two functions for this machine"
#endif

void *nothing_allocate(size_t size);
void nothing_free(void *ptr);

static int move(unsigned long count, size_t least) {
    void *block = malloc(200);
    void *(*volatile resize)(void *, size_t) = realloc;
    while (count-- > 0) {
        void *moved = resize(block, count % 2 ? least : 200);
        CHECK(count == 0 || moved != block, "the block stayed");
        block = moved;
    }
    free(block);
    return 0;
}

/* COUNT look-ups of a block. */
static int look_up(const char *what, unsigned long count) {
    void *volatile block = malloc(200);
    void *(*volatile resize)(void *, size_t) = realloc;
    int usable = strcmp(what, "usable") == 0;
    void *same = block;
    const size_t bytes = malloc_usable_size(same);
    while (count-- > 0) {
        size_t size = usable ? malloc_usable_size(same) : bytes;
        if (!usable) same = resize(same, bytes - count % 8);
        CHECK(size == bytes && same == block, "the block moved, or has %zu bytes", size);
    }
    free(block);
    return 0;
}

int main(int argc, char **argv) {
    void *blocks[BATCH_LIMIT];
    CHECK(argc > 2, "usage: pair hakmem|nothing COUNT [BATCH]");
    unsigned long count = argument(argc, argv, 2, 0);
    unsigned long batch = argument(argc, argv, 3, 1);
    CHECK(batch >= 1 && batch <= BATCH_LIMIT, "a batch is 1 to %d", BATCH_LIMIT);
    int real = strcmp(argv[1], "hakmem") == 0;
    if (strcmp(argv[1], "move") == 0) return move(count, 100);
    if (strcmp(argv[1], "few") == 0) return move(count, 48);
    if (!real && strcmp(argv[1], "nothing") != 0) return look_up(argv[1], count);
    void *(*volatile allocate_place)(size_t) = real ? malloc : nothing_allocate;
    void (*volatile free_place)(void *) = real ? free : nothing_free;
    void *(*allocate)(size_t) = allocate_place;
    void (*release)(void *) = free_place;
    while (count-- > 0) {
        for (unsigned long i = 0; i < batch; i++) blocks[i] = allocate(64);
        for (unsigned long i = batch; i-- > 0;) release(blocks[i]);
    }
    return 0;
}
