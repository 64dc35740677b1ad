/* many_maps.c - a heap of many GiB whose blocks are never touched. Whatever was allocated and freed, it
 * consists of few mappings, and new threads, libraries and large blocks find room.
 *
 *   test_stress_many_maps GIB */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "alloc_names.h"
#include "check.h"
#include "hakmem.h"

enum { SIZE = 64 * 1024, MAPPINGS_MOST = 1000, OTHERS = 200 };

static void **blocks;
static size_t count;

/* All mappings of the process, also those of libraries. */
static unsigned mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned lines = 0;
    CHECK(maps != NULL, "no /proc/self/maps");
    while (fgets(line, sizeof line, maps)) lines++;
    fclose(maps);
    return lines;
}

static void look(const char *when) {
    unsigned seen = mappings();
    uint64_t told = 0;
    int (*ask)(const char *, uint64_t *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "hakmem_stats_get");
    CHECK(ask && ask("memory.mappings", &told) == 0, "there is no such figure");
    printf("%s: %u mappings, %llu of them HAKMEM's\n", when, seen, (unsigned long long)told);
    CHECK(seen <= MAPPINGS_MOST && told <= MAPPINGS_MOST, "%s: %u mappings", when, seen);
    CHECK(seen <= told + OTHERS, "%s: %u mappings, and %llu are known", when, seen,
          (unsigned long long)told);
}

static void *allocate(void *unused) {
    (void)unused;
    return API(malloc)(3 << 20);
}

static void see_that_others_find_room(void) {
    pthread_t thread;
    void *block;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0, "no thread");
    CHECK(pthread_join(thread, &block) == 0 && block, "no block of 3 MiB");
    API(free)(block);
    CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL, "no library: %s", dlerror());
}

/* Frees those of the blocks that `is_freed` names, which purges their superslabs in part. */
static void free_some(size_t every, size_t first) {
    for (size_t i = first; i < count; i += every) {
        API(free)(blocks[i]);
        blocks[i] = NULL;
    }
    API(malloc_trim)(0);
}

int main(int argc, char **argv) {
    size_t gib = argc > 1 ? strtoul(argv[1], NULL, 10) : 16;
    count = (gib << 30) / SIZE;
    blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    for (size_t i = 0; i < count; i++)
        CHECK((blocks[i] = API(malloc)(SIZE)) != NULL, "no block after %zu", i);
    look("grown");
    free_some(32, 0); /* a slab of each second superslab */
    free_some(32, 1);
    look("purged in part");
    free_some(3, 2);
    look("a third freed");
    see_that_others_find_room();
    for (size_t i = 0; i < count; i++)
        if (blocks[i] && i % (512 * 1024 * 1024 / SIZE) > 64) {
            API(free)(blocks[i]);
            blocks[i] = NULL;
        }
    API(malloc_trim)(0);
    look("nearly all freed");
    see_that_others_find_room();
    for (size_t i = 0; i < count / 4; i++)
        if (!blocks[i]) CHECK((blocks[i] = API(malloc)(SIZE)) != NULL, "no block after %zu", i);
    look("grown again");
    return 0;
}
