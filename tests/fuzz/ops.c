/* ops.c - sequences of calls by up to four threads, against the shadow of the model.
 *
 * The first byte says how many threads there are (bits 0, 1), and whether they take turns (bit 2 off: each
 * input is then one order of calls) or run at the same time. An operation is four bytes:
 *     thread (bits 6, 7) and kind (bits 0 to 5), slot, size (two bytes: a mantissa and a power of two)
 * A slot holds a block; threads take it out while they work on it. */
#include "fuzz.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "alloc_names.h"
#include "block.h"
#include "check.h"
#include "hakmem.h"

enum { THREADS = 4, SLOTS = 64, OPS_MOST = 4000, OP_BYTES = 4 };

struct op {
    unsigned kind, slot;
    size_t size;
    unsigned extra; /* an alignment's power of two, or a count */
};

static struct {
    struct op ops[OPS_MOST];
    unsigned char thread_of[OPS_MOST];
    unsigned count, threads;
    bool in_turn;
    atomic_uint turn; /* the operation that is next */
    pthread_barrier_t start;
} plan;

static struct block blocks[SLOTS];
static _Atomic(struct block *) slots[SLOTS];
static atomic_ulong next_id;

static void right(const char *wrong, const struct block *block, const char *call) {
    CHECK(wrong == NULL, "%s: %s, block %p of %zu bytes", call, wrong, block->ptr, block->size);
}

static void accept(struct block *block, const char *call) {
    CHECK(block->ptr != NULL, "%s of %zu bytes gave NULL", call, block->size);
    block->id = atomic_fetch_add(&next_id, 1);
    right(block_accept(block), block, call);
}

static void make(struct block *block, const struct op *op) {
    *block = (struct block){.size = op->size};
    size_t align = (size_t)1 << op->extra % 21;
    switch (op->kind % 8) {
    case 0:
        block->ptr = API(calloc)(1, op->size);
        CHECK(block->ptr == NULL || bytes_are_zero(block->ptr, op->size), "calloc is not zero");
        break;
    case 1:
        block->alignment = align < sizeof(void *) ? sizeof(void *) : align;
        if (API(posix_memalign)(&block->ptr, block->alignment, op->size) != 0) block->ptr = NULL;
        break;
    case 2:
        block->alignment = align;
        block->ptr = API(memalign)(align, op->size);
        break;
    case 3:
        block->ptr = API(reallocarray)(NULL, op->size, 1);
        break;
    default:
        block->ptr = API(malloc)(op->size);
    }
    accept(block, "allocation");
}

static void end(struct block *block, const struct op *op) {
    void *ptr = block->ptr;
    right(block_retire(block), block, "free");
    block->ptr = NULL;
    if (op->extra % 4 == 1 && !block->alignment)
        API(free_sized)(ptr, block->size);
    else if (op->extra % 4 == 2)
        CHECK(API(realloc)(ptr, 0) == NULL, "realloc to 0 gave a block");
    else
        API(free)(ptr);
}

static void resize(struct block *block, const struct op *op) {
    size_t kept = block->usable < op->size ? block->usable : op->size;
    right(block_retire(block), block, "realloc");
    void *ptr = API(realloc)(block->ptr, op->size ? op->size : 1);
    CHECK(ptr != NULL, "realloc to %zu bytes gave NULL", op->size);
    CHECK(block_is_prefix(block, ptr, kept), "realloc from %zu to %zu bytes lost contents",
          block->size, op->size);
    *block = (struct block){.ptr = ptr, .size = op->size ? op->size : 1};
    accept(block, "realloc");
}

static void whole_heap(const struct op *op) {
    switch (op->slot % 4) {
    case 0:
        API(malloc_trim)(0);
        break;
    case 1:
        CHECK(hakmem_verify() == 0, "the heap is not in order");
        break;
    case 2:
        CHECK((ptrdiff_t)API(mallinfo2)().uordblks >= 0, "a count below 0");
        break;
    default:
        hakmem_option_set("HAKMEM_PURGE_DELAY_MS", op->extra % 2 ? "0" : "1000");
    }
}

static void do_op(const struct op *op) {
    if (op->kind % 32 == 31) {
        whole_heap(op);
        return;
    }
    struct block *block = atomic_exchange(&slots[op->slot % SLOTS], NULL);
    if (!block) return; /* another thread works on it */
    if (!block->ptr)
        make(block, op);
    else if (op->kind % 4 == 0)
        resize(block, op);
    else if (op->kind % 4 == 1)
        right(block_verify(block), block, "another call");
    else
        end(block, op);
    atomic_store(&slots[op->slot % SLOTS], block);
}

static void *work(void *number) {
    unsigned thread = (unsigned)(uintptr_t)number;
    pthread_barrier_wait(&plan.start);
    for (unsigned i = 0; i < plan.count; i++) {
        if (plan.thread_of[i] != thread) continue;
        while (plan.in_turn && atomic_load(&plan.turn) != i) sched_yield();
        do_op(&plan.ops[i]);
        if (plan.in_turn) atomic_store(&plan.turn, i + 1);
    }
    return NULL;
}

/* Sizes from 0 to 4 MiB; large ones are rare, or an input would be slow. */
static size_t size_of(unsigned word) {
    unsigned shift = word >> 12;
    size_t size = (word & 0xfff) << (shift > 10 ? shift - 11 : 0);
    return shift == 15 ? size << 6 : size;
}

static void decode(struct fuzz_input *input) {
    unsigned head = fuzz_byte(input);
    plan.threads = 1 + head % THREADS;
    plan.in_turn = !(head & 4);
    atomic_store(&plan.turn, 0);
    for (plan.count = 0; plan.count < OPS_MOST && input->left >= OP_BYTES; plan.count++) {
        unsigned first = fuzz_byte(input), slot = fuzz_byte(input), word = fuzz_word(input);
        plan.thread_of[plan.count] = (unsigned char)((first >> 6) % plan.threads);
        plan.ops[plan.count] = (struct op){first & 63, slot % SLOTS, size_of(word), slot / 4};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    pthread_t threads[THREADS];
    decode(&input);
    for (unsigned i = 0; i < SLOTS; i++) atomic_store(&slots[i], &blocks[i]);
    pthread_barrier_init(&plan.start, NULL, plan.threads);
    for (uintptr_t t = 1; t < plan.threads; t++)
        CHECK(pthread_create(&threads[t], NULL, work, (void *)t) == 0, "no thread");
    work(NULL);
    for (unsigned t = 1; t < plan.threads; t++) pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&plan.start);
    static const struct op last = {0};
    for (unsigned i = 0; i < SLOTS; i++)
        if (blocks[i].ptr) end(&blocks[i], &last);
    CHECK(hakmem_verify() == 0, "the heap is not in order at the end");
    return 0;
}
