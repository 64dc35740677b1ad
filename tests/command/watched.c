/* watched.c - a program for tools that watch malloc (interop.py): what its mode says, and nothing wrong
 * beside. It is linked with the library and calls the twins as well as the standard names. */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t align, size_t size);

static void *filled(void *block, size_t size) {
    return block ? memset(block, 1, size) : abort(), block;
}

/* Every function that gives a block, and every one that takes one, in all pairs. */
static void family(void) {
    enum { SIZE = 100, GIVERS = 14, TAKERS = 6 };
    for (int taker = 0; taker < TAKERS; taker++)
        for (int giver = 0; giver < GIVERS; giver++) {
            void *other = NULL;
            if (hakmem_posix_memalign(&other, 64, SIZE) != 0) abort();
            void *const blocks[GIVERS] = {malloc(SIZE),
                                          hakmem_malloc(SIZE),
                                          calloc(2, SIZE / 2),
                                          hakmem_calloc(2, SIZE / 2),
                                          realloc(malloc(1), SIZE),
                                          hakmem_realloc(malloc(1), SIZE),
                                          reallocarray(malloc(1), 2, SIZE / 2),
                                          hakmem_reallocarray(hakmem_malloc(1), 2, SIZE / 2),
                                          aligned_alloc(64, SIZE),
                                          hakmem_memalign(64, SIZE),
                                          valloc(SIZE),
                                          pvalloc(SIZE),
                                          hakmem_pvalloc(SIZE),
                                          other};
            for (int i = 0; i < GIVERS; i++) {
                void *block = filled(blocks[i], SIZE);
                switch (i == giver ? taker : 0) {
                case 0:
                    free(block);
                    break;
                case 1:
                    hakmem_free(block);
                    break;
                case 2:
                    free_sized(block, SIZE);
                    break;
                case 3:
                    hakmem_free_sized(block, SIZE);
                    break;
                case 4:
                    free_aligned_sized(block, 1, SIZE);
                    break;
                default:
                    free(reallocarray(block, 3, SIZE));
                }
            }
        }
    volatile size_t most = SIZE_MAX;
    if (hakmem_reallocarray(NULL, most, 2) || hakmem_pvalloc(most)) abort();
}

static void touch(char *block, int at) {
    char *volatile hidden = block; /* or the compiler warns */
    hidden[at]++;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    char *block = hakmem_malloc(100), *array = hakmem_reallocarray(NULL, 10, 10),
         *pages = hakmem_pvalloc(100);
    if (!block || !array || !pages) return 2;
    if (strcmp(mode, "family") == 0) family();
    bool is_wrong = strcmp(mode, "wrong") == 0;
    if (is_wrong) touch(block, 100), touch(array, 100);
    hakmem_free_sized(block, 100);
    if (is_wrong) touch(block, 3), free(block);
    if (is_wrong) array = pages = NULL; /* lost */
    free(array);
    free(pages);
    if (strcmp(mode, "many") == 0)
        for (int i = 0; i < 1000; i++) free(filled(malloc(100), 100));
    uint64_t live = 0;
    hakmem_stats_get("total.live", &live);
    printf("%llu\n", (unsigned long long)live);
    return 0;
}
