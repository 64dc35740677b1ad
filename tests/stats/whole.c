/* whole.c: programs that move the figures of large and huge blocks. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "trials.h"

/* On one CPU: from one heap. What is freed stays. */
void hold_large(void) {
    CHECK(hakmem_option_set("PURGE_DELAY_MS", "3600000") == 0, "there is no PURGE_DELAY_MS");
    stay_on_cpu(0);
    allocate_some(50, 900 * 1024);
}

void free_large(void) {
    hold_large();
    for (int i = 0; i < 50; i++) memset(blocks[i], 1, 900 * 1024);
    free_some(50);
}

/* Long enough for a pass to find them old, and too few for the helper thread. */
void free_large_for_long(void) {
    allocate_some(20, 900 * 1024);
    for (int i = 0; i < 20; i++) memset(blocks[i], 1, 900 * 1024);
    free_some(20);
    for (int i = 0; i < 30; i++) {
        usleep(50000);
        allocate_some(50, 100 * 1024);
        free_some(50);
    }
}

void trim_large(void) {
    free_large();
    API(malloc_trim)(0);
}

void hold_huge(void) { blocks[0] = API(malloc)(64 * MIB); }

void free_huge(void) {
    hold_huge();
    API(free)(blocks[0]);
    API(malloc_trim)(0);
}

void grow_huge(void) {
    blocks[0] = API(malloc)(8 * MIB);
    CHECK(blocks[0] = API(realloc)(blocks[0], 80 * MIB), "no memory");
}

static void *free_large_there(void *unused) {
    stay_on_cpu(1);
    free_some(LARGE_COUNT);
    return unused;
}

static void *allocate_large_there(void *unused) {
    stay_on_cpu(1);
    allocate_some(LARGE_COUNT, LARGE);
    return unused;
}

void hold_and_free_large_there(void) {
    stay_on_cpu(0);
    allocate_some(LARGE_COUNT, LARGE);
    in_a_thread(free_large_there, NULL);
}

/* First they are remote, then free memory of this CPU's heap. */
void reuse_large(void) {
    hold_and_free_large_there();
    allocate_some(LARGE_COUNT, LARGE);
    free_some(LARGE_COUNT);
    allocate_some(LARGE_COUNT, LARGE);
}

void reuse_large_of_others(void) {
    CHECK(hakmem_option_set("L25_PREF", "remote") == 0, "there is no L25_PREF");
    reuse_large();
}

void steal_large(void) {
    stay_on_cpu(0);
    allocate_some(LARGE_COUNT, LARGE);
    for (int i = 0; i < LARGE_COUNT; i++) memset(blocks[i], 1, LARGE);
    free_some(LARGE_COUNT);
    in_a_thread(allocate_large_there, NULL);
}

void resize_large(void) {
    blocks[0] = API(malloc)(LARGE);
    CHECK(API(realloc)(blocks[0], LARGE / 10 * 8) == blocks[0], "the block has moved");
}

void reuse_huge(void) {
    for (int i = 0; i < 5; i++) {
        allocate_some(5, 8 * MIB);
        free_some(5);
    }
}

/* A larger block than the only one that is kept. */
void lengthen_huge(void) {
    blocks[1] = API(malloc)(64 * MIB);
    for (size_t size = 8; size < 30; size += 4) API(free)(API(malloc)(size * MIB));
}

void refuse_huge(void) {
    CHECK(hakmem_option_set("LIMIT", "64M") == 0, "there is no limit");
    CHECK(API(malloc)(100 * MIB) == NULL, "beyond the limit");
}
