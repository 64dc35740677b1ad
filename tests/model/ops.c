/* ops.c - random operations over every allocating and freeing function. */
#define _GNU_SOURCE
#include "ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "hakmem.h"

_Noreturn void worker_fail(const struct worker *worker, const struct block *block,
                           const char *wrong) {
    check_failed("model", (int)worker->index,
                 "%s, by %s, block %p of %zu bytes (usable %zu, alignment %zu), operation %lu of "
                 "thread %u, mix %s, seed %llu",
                 wrong, worker->function, block->ptr, block->size, block->usable, block->alignment,
                 worker->op, worker->index, worker->mix->name, (unsigned long long)worker->seed);
}

static void accept(struct worker *worker, struct block *block) {
    if (block->ptr == NULL) worker_fail(worker, block, "returned NULL");
    block->id = worker->next_id++;
    const char *wrong = block_accept(block);
    if (wrong != NULL) worker_fail(worker, block, wrong);
}

/* ---- allocation: each function puts its result into block->ptr -------------------------------- */

static void by_malloc(struct block *block) { block->ptr = API(malloc)(block->size); }

static void by_calloc(struct block *block) {
    size_t count = block->size % 3 == 0 ? 3 : 1;
    block->ptr = API(calloc)(count, block->size / count);
}

static void by_realloc(struct block *block) { block->ptr = API(realloc)(NULL, block->size); }

static void by_reallocarray(struct block *block) {
    size_t count = block->size % 5 == 0 ? 5 : 1;
    block->ptr = API(reallocarray)(NULL, block->size / count, count);
}

static void by_aligned_alloc(struct block *block) {
    block->origin = FROM_ALIGNED_ALLOC;
    block->ptr = API(aligned_alloc)(block->alignment, block->size);
}

static void by_posix_memalign(struct block *block) {
    if (block->alignment < sizeof(void *)) block->alignment = sizeof(void *);
    block->origin = FROM_OTHER;
    if (API(posix_memalign)(&block->ptr, block->alignment, block->size) != 0) block->ptr = NULL;
}

static void by_memalign(struct block *block) {
    block->origin = FROM_OTHER;
    block->ptr = API(memalign)(block->alignment, block->size);
}

static void by_valloc(struct block *block) {
    block->alignment = (size_t)sysconf(_SC_PAGESIZE);
    block->origin = FROM_OTHER;
    block->ptr = API(valloc)(block->size);
}

static void by_pvalloc(struct block *block) {
    block->alignment = (size_t)sysconf(_SC_PAGESIZE);
    block->origin = FROM_OTHER;
    block->ptr = API(pvalloc)(block->size);
}

struct maker {
    const char *name;
    void (*make)(struct block *block);
    bool zeroes;
};

static const struct maker plain_makers[] = {
    {"malloc", by_malloc, false},   {"malloc", by_malloc, false},
    {"malloc", by_malloc, false},   {"calloc", by_calloc, true},
    {"realloc", by_realloc, false}, {"reallocarray", by_reallocarray, false},
};

static const struct maker aligned_makers[] = {
    {"aligned_alloc", by_aligned_alloc, false},
    {"posix_memalign", by_posix_memalign, false},
    {"memalign", by_memalign, false},
    {"valloc", by_valloc, false},
    {"pvalloc", by_pvalloc, false},
};

#define PICK(worker, table) (&(table)[rng_below(&(worker)->rng, sizeof(table) / sizeof(table)[0])])

static size_t random_size(struct worker *worker) {
    const struct mix *mix = worker->mix;
    if (rng_below(&worker->rng, 256) == 0) return 0;
    return rng_size(&worker->rng, mix->least, mix->most);
}

void op_allocate(struct worker *worker, struct block *block) {
    *block = (struct block){.size = random_size(worker), .origin = FROM_MALLOC};
    const struct maker *maker = PICK(worker, plain_makers);
    if (rng_below(&worker->rng, 100) < worker->mix->aligned_percent) {
        maker = PICK(worker, aligned_makers);
        block->alignment = (size_t)1 << rng_below(&worker->rng, 22);
        /* Alignments above 64 KiB cost as much address space, so they stay rare. */
        if (block->alignment > 65536 && rng_below(&worker->rng, 8) != 0) block->alignment = 64;
    }
    worker->function = maker->name;
    maker->make(block);
    if (maker->zeroes && block->ptr != NULL && !bytes_are_zero(block->ptr, block->size))
        worker_fail(worker, block, "not zero");
    accept(worker, block);
}

/* ---- release ---------------------------------------------------------------------------------- */

static void by_free(const struct block *block) { API(free)(block->ptr); }

static void by_realloc_to_zero(const struct block *block) {
    void *none = API(realloc)(block->ptr, 0);
    CHECK(none == NULL, "realloc(%p, 0) returned %p", block->ptr, none);
}

static void by_free_sized(const struct block *block) {
    if (block->origin == FROM_MALLOC)
        API(free_sized)(block->ptr, block->size);
    else if (block->origin == FROM_ALIGNED_ALLOC)
        API(free_aligned_sized)(block->ptr, block->alignment, block->size);
    else
        API(free)(block->ptr);
}

#if !defined(TEST_PREFIXED)
static void by_cfree(const struct block *block) { cfree(block->ptr); }
#endif

struct releaser {
    const char *name;
    void (*release)(const struct block *block);
};

static const struct releaser releasers[] = {
    {"free", by_free},
    {"free", by_free},
    {"free", by_free},
    {"free_sized", by_free_sized},
    {"realloc to 0", by_realloc_to_zero},
#if !defined(TEST_PREFIXED)
    {"cfree", by_cfree},
#endif
};

void op_release(struct worker *worker, struct block *block) {
    const struct releaser *releaser = PICK(worker, releasers);
    worker->function = releaser->name;
    const char *wrong = block_retire(block);
    if (wrong != NULL) worker_fail(worker, block, wrong);
    errno = 4242;
    releaser->release(block);
    if (errno != 4242) worker_fail(worker, block, "errno has changed");
    block->ptr = NULL;
}

/* ---- the rest --------------------------------------------------------------------------------- */

void op_resize(struct worker *worker, struct block *block) {
    size_t size = rng_size(&worker->rng, worker->mix->least, worker->mix->most);
    const char *wrong = block_retire(block);
    worker->function = "realloc";
    if (wrong != NULL) worker_fail(worker, block, wrong);
    void *moved = API(realloc)(block->ptr, size);
    size_t kept = block->usable < size ? block->usable : size;
    if (moved != NULL && !block_is_prefix(block, moved, kept))
        worker_fail(worker, block, "lost contents");
    *block = (struct block){.ptr = moved, .size = size, .origin = FROM_MALLOC};
    accept(worker, block);
}

void op_verify(struct worker *worker, const struct block *block) {
    const char *wrong = block_verify(block);
    worker->function = "another operation";
    if (wrong != NULL) worker_fail(worker, block, wrong);
}

/* Violations among the allocator's own records. */
static size_t verify(void) {
#if defined(TEST_PRELOAD)
    size_t (*target)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "hakmem_verify");
    CHECK(target != NULL, "there is no hakmem_verify");
    return target();
#else
    return hakmem_verify();
#endif
}

void op_housekeeping(struct worker *worker) {
    static const struct block no_block;
    size_t dice = rng_below(&worker->rng, 4);
    if (dice == 1) {
        worker->function = "hakmem_verify";
        if (verify() != 0) worker_fail(worker, &no_block, "violations");
        return;
    }
    if (dice == 0) {
        worker->function = "malloc_trim";
        API(malloc_trim)(rng_below(&worker->rng, 2) << 20);
        return;
    }
    worker->function = "mallinfo2";
    api_mallinfo2 info = API(mallinfo2)();
    if ((ptrdiff_t)info.uordblks < 0 || (ptrdiff_t)info.fordblks < 0)
        worker_fail(worker, &no_block, "a count below 0");
}
