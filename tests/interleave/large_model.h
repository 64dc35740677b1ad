/* large_model.h: what large.c explores on, and a part of it: the blocks of the program, and what
 * stands in for the extents, the superslabs and the pool. */
#pragma once

enum {
    BLOCKS = 3,
    UNITS = 2 * BLOCKS, /* a block is longer than a unit */
    GRAINS = 17,
    SIZE = GRAINS * HAK_GRAIN_SIZE,
    HEAP = 0, /* of all blocks; the other CPU's has none */
    OTHER = 1,
    UNMADE = 2,
};

static char units[UNITS][HAK_UNIT_SIZE] __attribute__((aligned(HAK_UNIT_SIZE)));
static hak_unit_t slabs[UNITS] __attribute__((aligned(64)));
static hak_heap_t heaps[2];
hak_lazy_table_t hak_heap_table = {.end = 2, .places = {&heaps[0], &heaps[1]}};
hak_map_t hak_map;
_Atomic unsigned *merged_place(void); /* mutants.py adds it to large.c */

/* What stands for the extents: blocks in free memory, and the grains behind each that it grew by;
 * the heap's lock guards it. */
static struct {
    bool is_free[BLOCKS];
    size_t more[BLOCKS];
} extents __attribute__((aligned(64)));

/* The scenario's own. */
static struct {
    char *blocks[BLOCKS];
    bool held[BLOCKS];    /* by the program */
    bool freeing[BLOCKS]; /* in a call of hak_large_free */
    unsigned freed[BLOCKS];
    int64_t array_size; /* L25_TC_SPILL */
    int64_t array_first;
} model __attribute__((aligned(64)));

/* ---- Stand-ins for what large.c calls -------------------------------------------------------- */

static unsigned number_of(const char *block) {
    return (unsigned)((size_t)(block - units[0]) / (2 * HAK_UNIT_SIZE));
}

/* Grains before an address, counted from the start of its block. */
static size_t grains_before(const char *address) {
    return (size_t)(address - model.blocks[number_of(address)]) / HAK_GRAIN_SIZE;
}

int64_t hak_option(hak_option_t option) {
    return option == HAK_OPTION_L25_TC_SPILL ? model.array_size
           : option == HAK_OPTION_L25_PREF   ? model.array_first
                                             : 0;
}

unsigned hak_shard_homes(void) { return 2; }
unsigned hak_shard_here(void) { return HEAP; }
_Atomic unsigned hak_node_count; /* one node */
hak_span_t hak_node_span(unsigned number, unsigned homes) {
    (void)number;
    return (hak_span_t){0, homes};
}
unsigned hak_node_of_this_cpu(void) { return HEAP; }

hak_unit_t *hak_region_unit_of(const void *block) {
    size_t unit = (size_t)((const char *)block - units[0]) / HAK_UNIT_SIZE;
    return unit < UNITS ? &slabs[unit] : NULL;
}

char *hak_extents_take(hak_extents_t *unused, size_t grains, size_t align_grains) {
    (void)unused, (void)align_grains;
    EXPLORE_CHECK(grains == GRAINS, "a request for %zu grains", grains);
    memory_write(&extents, sizeof extents);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (!extents.is_free[i]) continue;
        extents.is_free[i] = false;
        return model.blocks[i];
    }
    return NULL;
}

/* Block 0 has none while it is free. */
bool hak_heap_has_pages(char *start, size_t grains) { return grains == 0 || number_of(start) != 0; }
void hak_extents_give(hak_extents_t *unused, char *start, size_t grains) {
    unsigned i = number_of(start);
    (void)unused, (void)grains;
    memory_write(&extents, sizeof extents);
    EXPLORE_CHECK(!extents.is_free[i], "block %u is given back twice", i);
    extents.is_free[i] = true;
}

void hak_heap_free(hak_heap_t *heap, char *start, size_t grains) {
    unsigned i = number_of(start);
    size_t before = grains_before(start);
    memory_write(&extents, sizeof extents);
    EXPLORE_CHECK(heap == &heaps[HEAP] && before + grains == GRAINS + extents.more[i],
                  "block %u is not whole", i);
    EXPLORE_CHECK(!extents.is_free[i], "block %u is merged twice", i);
    extents.is_free[i] = before == 0;
    extents.more[i] = before ? before - GRAINS : 0;
}

bool hak_heap_use(hak_heap_t *heap, char *start, size_t grains) {
    (void)heap, (void)start, (void)grains;
    return true;
}
/* False while some block stays whole: the next one. */
bool hak_extents_take_front(hak_extents_t *unused, char *start, size_t grains) {
    unsigned i = number_of(start);
    (void)unused;
    memory_write(&extents, sizeof extents);
    if (heaps[HEAP].recent.count) return false;
    EXPLORE_CHECK(!extents.is_free[i] && grains_before(start) == GRAINS + extents.more[i],
                  "block %u does not end there", i);
    extents.more[i] += grains;
    return true;
}
bool hak_part_next(char **at, size_t *left, hak_part_t *part) {
    (void)at, (void)left, (void)part;
    return false;
}
bool hak_heap_grow(unsigned number, size_t least, size_t grains) {
    (void)number, (void)least, (void)grains;
    return false;
}
unsigned hak_heap_open(unsigned number) { return number < 2 ? number : HEAP; }
void *hak_meta_alloc_zeroed(size_t size) {
    (void)size;
    return NULL;
}
void hak_meta_free_zeroed(void *block, size_t size) { (void)block, (void)size; }
bool hak_heap_lend(hak_heap_t *heap) {
    (void)heap;
    return false;
}
size_t hak_heap_purge(hak_heap_t *heap, uint32_t delay_ms, hak_budget_t *budget) {
    (void)heap, (void)delay_ms, (void)budget;
    return 0;
}
size_t hak_heap_purge_sparse(hak_heap_t *heap, hak_budget_t *budget) {
    (void)heap, (void)budget;
    return 0;
}

/* No unit is of fine blocks. */
size_t hak_fine_free(void *block) {
    EXPLORE_CHECK(false, "%p is freed as a fine block", block);
    return 0;
}
bool hak_fine_find(const void *pointer, void **start, size_t *size) {
    (void)start, (void)size;
    EXPLORE_CHECK(false, "%p is looked for among fine blocks", pointer);
    return false;
}
void hak_fine_add_stats(size_t *count, size_t *bytes) { (void)count, (void)bytes; }

static hak_pool_lender_t borrow;
void hak_pool_set_lender(hak_pool_lender_t lender) { borrow = lender; }
void hak_region_prepare(void) {}
uint64_t hak_os_now_ns(void) { return 0; } /* of the debug build's times, which are off */
void hak_pool_prefault(char *start, size_t size, int level) {
    (void)start, (void)size, (void)level;
}
