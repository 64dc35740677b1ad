/*
 * mir - the middle end of a compiler: big vectors and arenas, 64 KiB to 1 MiB each.
 *
 * One function after another is lowered and optimised. Its instructions lie in an arena of
 * chunks that double from 64 KiB to 1 MiB; four passes in turn copy what they keep into a
 * new arena and free the old one whole. Each pass also has a work list that grows by
 * realloc from 64 KiB, by half at a time, and a zeroed bit matrix (calloc, 64 KiB to
 * 1 MiB) for liveness, both freed at its end. Functions have 64 KiB to 2 MiB of
 * instructions (as many per doubling); the finished code of the last 24 functions (vectors cut
 * to their length) stays alive. Every page is written. An operation is one chunk, vector,
 * matrix or growth of a vector, so it stands for many small allocations of the front end.
 */
#include "scenario.h"

#define SMALLEST (64u << 10)
#define LARGEST (1u << 20)
#define PASSES 4
#define FINISHED 24

struct instruction {
    uint64_t number, operation;
    uint64_t operands[6];
};

#define MOST_CHUNKS 16

/* Chunks of one function; the last one is being filled. */
struct arena {
    struct instruction *chunks[MOST_CHUNKS];
    uint32_t counts[MOST_CHUNKS]; /* instructions in each */
    uint32_t chunk_count, capacity;
};

struct vector {
    uint64_t *items;
    size_t count, capacity;
};

static struct vector finished[FINISHED];

static struct instruction *append(struct scenario_run *run, struct arena *arena) {
    uint32_t last = arena->chunk_count - 1;

    if (arena->chunk_count == 0 || arena->counts[last] == arena->capacity) {
        size_t size = (size_t)SMALLEST << arena->chunk_count;

        if (arena->chunk_count == MOST_CHUNKS) bench_fail(1, "a function is too long");
        last = arena->chunk_count++;
        size = size < LARGEST ? size : LARGEST;
        arena->capacity = (uint32_t)(size / sizeof(struct instruction));
        arena->chunks[last] = scenario_malloc(size);
        run->done++;
    }
    return &arena->chunks[last][arena->counts[last]++];
}

static void free_arena(struct arena *arena) {
    for (uint32_t i = 0; i < arena->chunk_count; i++) free(arena->chunks[i]);
    *arena = (struct arena){.chunk_count = 0};
}

static void push(struct scenario_run *run, struct vector *vector, uint64_t item) {
    if (vector->count == vector->capacity) {
        vector->capacity += vector->capacity / 2;
        if (vector->capacity == 0) vector->capacity = SMALLEST / sizeof *vector->items;
        vector->items = scenario_realloc(vector->items, vector->capacity * sizeof *vector->items);
        run->done++;
    }
    vector->items[vector->count++] = item;
}

static struct arena lower(struct scenario_run *run) {
    uint32_t count = scenario_draw_log(run, SMALLEST, 2 * LARGEST) / sizeof(struct instruction);
    struct arena arena = {.chunk_count = 0};

    for (uint32_t i = 0; i < count; i++) {
        struct instruction *instruction = append(run, &arena);

        instruction->number = i;
        instruction->operation = bench_random(&run->state) & 63;
        instruction->operands[0] = scenario_draw(run, i + 1);
    }
    return arena;
}

/* Marks what is used; the matrix must come zeroed, as its users rely on it. */
static void find_live(struct scenario_run *run, const struct arena *arena) {
    size_t size = scenario_draw_log(run, SMALLEST, LARGEST), words = size / sizeof(uint64_t);
    uint64_t *matrix = scenario_calloc(words, sizeof *matrix);
    uint64_t set = 0;

    run->done++;
    for (size_t i = 0; i < words; i += 64) {
        if (matrix[i] != 0) bench_fail(1, "calloc gave a block that is not zero");
        matrix[i] = 1;
    }
    for (uint32_t c = 0; c < arena->chunk_count; c++)
        for (uint32_t i = 0; i < arena->counts[c]; i++) {
            uint64_t *word = &matrix[arena->chunks[c][i].operands[0] % words];

            set += (*word & 2) == 0;
            *word |= 2;
        }
    scenario_note(run, set);
    free(matrix);
}

/* One pass: drops some instructions and copies the others into a new arena. */
static void optimise(struct scenario_run *run, struct arena *arena, uint64_t pass) {
    struct arena next = {.chunk_count = 0};
    struct vector work = {.items = NULL};
    uint64_t before = 0;

    find_live(run, arena);
    for (uint32_t c = 0; c < arena->chunk_count; c++) {
        for (uint32_t i = 0; i < arena->counts[c]; i++) {
            const struct instruction *old = &arena->chunks[c][i];

            if (old->number < before) bench_fail(1, "instructions are out of order");
            before = old->number;
            push(run, &work, old->number ^ old->operation);
            if (old->operation % 16 != pass) *append(run, &next) = *old;
        }
    }
    for (size_t i = 0; i < work.count; i += 97) scenario_note(run, work.items[i]);
    free(work.items);
    free_arena(arena);
    *arena = next;
}

static void discard(struct scenario_run *run, struct vector *code) {
    if (code->items == NULL) return;
    if (code->items[0] != code->count) bench_fail(1, "finished code has changed");
    scenario_note(run, code->items[code->count - 1]);
    free(code->items);
    *code = (struct vector){.items = NULL};
}

static void emit(struct scenario_run *run, const struct arena *arena, struct vector *code) {
    push(run, code, 0);
    for (uint32_t c = 0; c < arena->chunk_count; c++)
        for (uint32_t i = 0; i < arena->counts[c]; i++)
            push(run, code, arena->chunks[c][i].operation << 32 | arena->chunks[c][i].number);
    code->items = scenario_realloc(code->items, code->count * sizeof *code->items);
    code->items[0] = code->count;
}

void scenario_mir(struct scenario_run *run) {
    for (uint32_t function = 0; run->done < run->wanted; function++) {
        struct vector *code = &finished[function % FINISHED];
        struct arena arena = lower(run);

        for (uint64_t pass = 0; pass < PASSES; pass++) optimise(run, &arena, pass);
        discard(run, code);
        emit(run, &arena, code);
        free_arena(&arena);
    }
    for (int i = 0; i < FINISHED; i++) discard(run, &finished[i]);
}
