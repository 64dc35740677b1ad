/* verify_world.c - makes the heap of verify_world.h, and finds static variables by the symbols of this
 * program's file. */
#include "verify_world.h"

#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"
#include "meta/meta.h"
#include "policy/policy.h"
#include "pool/lists.h"
#include "pool/pool.h"
#include "region/region.h"
#include "thread/thread.h"

enum {
    SMALL = 3072, /* bytes; 21 blocks in a slab */
    BOUND = 256,
    BLOCKS = 8192,
    LARGE = 200 * 1024,
    HUGE = 3 * 1024 * 1024,
    ROOM = 80, /* units, for the blocks of BOUND bytes */
};

/* ---- the engine's own static variables ---- */

static const char *image; /* of this program's file */

static void map_image(void) {
    FILE *file = fopen("/proc/self/exe", "rb");
    CHECK(file, "no program");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size);
    CHECK(text && fread(text, 1, (size_t)size, file) == (size_t)size, "no program");
    fclose(file);
    image = text;
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void *find_static(const char *file, const char *name, size_t size) {
    const Elf64_Ehdr *head = (const void *)image;
    const Elf64_Shdr *sections = (const void *)(image + head->e_shoff);
    uintptr_t base = head->e_type == ET_DYN ? (uintptr_t)__ehdr_start : 0;
    void *found = NULL;
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(image + sections[i].sh_offset);
        const char *in = "";
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++) {
            const char *its = names + symbols[k].st_name;
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FILE) in = its;
            if (strcmp(in, file) == 0 && strcmp(its, name) == 0 && symbols[k].st_size == size)
                found = (void *)(base + symbols[k].st_value);
        }
    }
    CHECK(found, "no variable %s of %zu bytes", name, size);
    return found;
}

region_t *region(void) { return find_static("region.c", "region", sizeof(region_t)); }

/* ---- a heap with one of each ---- */

verify_world_t world;
static void *blocks[BLOCKS];

void free_all_of(size_t size, unsigned count) {
    for (unsigned i = 0; i < count; i++) CHECK((blocks[i] = hakmem_malloc(size)), "no memory");
    for (unsigned i = 0; i < count; i++) hakmem_free(blocks[i]);
}

static void *allocate(void *unused) {
    (void)unused;
    free_all_of(64, 100);
    return NULL;
}

static void bind_some(void) {
    hak_thread_cache()->slow_count += 1000; /* the thread is not young */
    hak_policy_bands = 1u << hak_bands[hak_class_of(BOUND)];
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = hakmem_malloc(BOUND);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (unit_random(2)) hakmem_free(blocks[i]);
    for (unsigned i = 0; i < BLOCKS && hak_warm_slabs(hak_class_of(BOUND)) == 0; i++)
        CHECK(hakmem_malloc(BOUND), "no memory");
    for (unsigned shard = 0; shard < 2; shard++) {
        const hak_warm_ring_t *ring = hak_warm_ring_of(shard, hak_class_of(BOUND));
        if (!ring->oldest) continue;
        world.slot = ring->oldest;
        world.warm = (hak_unit_t *)hak_load_relaxed(&ring->oldest->state);
    }
    CHECK(world.warm, "no slab is warm");
    hak_policy_bands = 0;
}

static void make_small(void) {
    hak_cache_t *cache = hak_thread_cache();
    unsigned class_index = hak_class_of(SMALL);
    free_all_of(SMALL, 300); /* many slabs: one is kept empty, some go to the pool */
    char *one = hakmem_malloc(SMALL), *two = hakmem_malloc(SMALL);
    hak_cache_flush_all(cache);
    (void)two;
    world.bin = hak_bin_of(cache->shard, class_index);
    free_all_of(2 * SMALL, 100);
    hak_cache_flush_all(cache);
    for (unsigned i = 0; i < 40; i++) blocks[i] = hakmem_malloc(SMALL);
    for (unsigned i = 0; i < 40; i++) hakmem_free(blocks[i]);
    hak_cache_flush_all(cache);
    world.slab = hak_unit_of(one);
    CHECK(world.slab->listed && world.bin->empty, "no listed slab, or none is kept");
    world.super = hak_region_superslab_of(world.slab);
    for (unsigned i = 0; i < 4; i++) hakmem_free(hakmem_malloc(SMALL)); /* for the cache */
    world.magazine = &cache->magazines[class_index];
}

static void make_large(void) {
    void *large[3];
    for (unsigned i = 0; i < 3; i++) {
        large[i] = hakmem_malloc(LARGE);
        memset(large[i], 1, LARGE);
    }
    world.block = hak_unit_of(large[0]);
    world.extent = hak_unit_of(large[1]);
    world.heap = hak_heap_at(hak_owner_shard(world.block->owner));
    hakmem_free(large[1]); /* by the heap's own CPU, or it lies in the transfer array: emptied */
    hak_heap_purge(world.heap, UINT32_MAX, &(hak_budget_t){0, 0});
    world.huge = hakmem_malloc(HUGE);
    world.kept = hakmem_malloc(HUGE);
    hakmem_free(world.kept);
}

static void make_dirty(void) {
    bool zeroed;
    hak_unit_t *unit = hak_pool_take(1, &zeroed);
    hak_pool_give(unit, 1);
    world.dirty = hak_lists_newest(&hak_lists[0]);
    CHECK(world.dirty, "no free unit with pages");
}

/* Units with pages: where there are none, a refill takes the empty slabs that bins keep. */
static void make_room(void) {
    hak_unit_t *units[ROOM];
    bool zeroed;
    for (unsigned i = 0; i < ROOM; i++) units[i] = hak_pool_take(1, &zeroed);
    for (unsigned i = 0; i < ROOM; i++) hak_pool_give(units[i], 1);
}

/* A thread that moves to another CPU takes large blocks from another heap, and frees to a transfer array:
 * then the heap lacks what a row breaks. */
static void stay_on_one_cpu(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "no affinity");
}

void make_world(void) {
    pthread_t thread;
    stay_on_one_cpu();
    map_image();
    make_small();
    make_large();
    make_room();
    pthread_create(&thread, NULL, allocate, NULL);
    pthread_join(thread, NULL);
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        if (cache != hak_cache && cache->holds) world.waiting = cache;
    CHECK(world.waiting, "no cache waits");
    bind_some();
    CHECK(world.slab->listed && world.bin->empty, "no listed slab, or none is kept");
    make_dirty();
    world.record = hak_meta_alloc(65536);
    hak_meta_free(world.record, 65536);
    CHECK(hakmem_verify() == 0, "the heap is not sound to begin with");
}
