/* worker.c - the life of a thread. */
#define _GNU_SOURCE
#include "worker.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "forks.h"
#include "ops.h"

#define EVENTS_OF_A_LIFE 16 /* steps with something else than one block */
#define LIVES_OF_A_PLACE 4  /* at least */
#define TOUR_TRIES 1000

struct settings settings;
struct place *places;
atomic_ullong operations_left;

static const struct character characters[] = {
    {"tiny", {1004, 18, 2, 0}, 1500000}, {"tiny", {1004, 18, 2, 0}, 1500000},
    {"mid", {300, 704, 20, 0}, 40000},   {"large", {200, 200, 620, 4}, 8000},
    {"huge", {200, 100, 100, 624}, 300},
};
#define CHARACTER_COUNT (sizeof characters / sizeof characters[0])

const struct character *worker_find_character(const char *name) {
    for (size_t i = 0; i < CHARACTER_COUNT; i++)
        if (strcmp(characters[i].name, name) == 0) return &characters[i];
    return NULL;
}

unsigned worker_slot_count(enum tier tier) {
    static const unsigned few[] = {SLOTS_MOST, 120, 12, 2};
    static const unsigned many[] = {SLOTS_MOST, 60, 4,
                                    1}; /* a place's share, where there are many */
    return settings.thread_count > 16 ? many[tier] : few[tier];
}

static enum tier pick_tier(struct worker *worker) {
    size_t dice = rng_below(&worker->rng, 1024);
    enum tier tier = TINY;
    while (tier < HUGE && dice >= worker->character->parts[tier])
        dice -= worker->character->parts[tier++];
    return tier;
}

static struct block *pick_slot(struct worker *worker, enum tier tier) {
    return &worker->place->slots[tier][rng_below(&worker->rng, worker_slot_count(tier))];
}

static void make_random(struct worker *worker, struct block *block, enum tier tier) {
    static const enum call calls[] = {MALLOC, MALLOC, MALLOC,        CALLOC,
                                      MALLOC, CALLOC, ALIGNED_ALLOC, POSIX_MEMALIGN};
    static const enum call of_heap[] = {HEAP_MALLOC, HEAP_MALLOC, HEAP_CALLOC, HEAP_ALIGNED};
    bool in_heap = !settings.is_plain && rng_below(&worker->rng, 8) == 0;
    enum call call = calls[rng_below(&worker->rng, sizeof calls / sizeof calls[0])];
    if (in_heap) call = of_heap[rng_below(&worker->rng, sizeof of_heap / sizeof of_heap[0])];
    op_make(worker, block, call, tier);
}

/* A new size is of the block's own tier, or now and then of any other. */
static void resize_random(struct worker *worker, struct block *block, enum tier tier) {
    if (rng_below(&worker->rng, 16) == 0) tier = pick_tier(worker);
    op_resize(worker, block, tier);
}

static void step(struct worker *worker) {
    enum tier tier = pick_tier(worker);
    struct block *block = pick_slot(worker, tier);
    size_t dice = rng_below(&worker->rng, 32);
    if (block->content.ptr == NULL) {
        make_random(worker, block, tier);
    } else if (dice < 19) {
        op_free(worker, block);
    } else if (dice < 26) {
        resize_random(worker, block, tier);
    } else if (dice < 30) {
        op_hand_over(worker, block);
    } else {
        block_check_here(block, worker->life, "between calls");
        tally_event(&worker->place->tally, CHECKED);
    }
}

/* Takes what others have handed over: every second block finds a slot, the others are freed. Those of
 * another one's heap are freed at once, so that the heap may end; some are resized first. */
static void receive(struct worker *worker, unsigned most) {
    struct block received;
    while (most-- > 0 && queue_take(&worker->place->queue, &received)) {
        struct block *slot = pick_slot(worker, tally_tier(received.size));
        bool is_others = received.heap != NULL && received.heap != &worker->place->heap;
        if (is_others && rng_below(&worker->rng, 4) == 0)
            op_resize(worker, &received, tally_tier(received.size));
        if (is_others)
            op_free(worker, &received);
        else if (slot->content.ptr == NULL)
            *slot = received;
        else
            op_free(worker, &received);
    }
}

static void event(struct worker *worker) {
    switch (rng_below(&worker->rng, 16)) {
    case 0:
        fork_step(worker);
        break;
    case 1:
    case 2:
    case 3:
        op_housekeeping(worker);
        break;
    case 4:
    case 5:
    case 6:
        heaps_end(worker);
        break;
    default:
        foreign_step(&worker->place->foreign, &worker->rng, &worker->place->tally);
        break;
    }
}

/* Gives back what tours before have handed over: with a limit it could be all that there is. */
static void empty_queues(struct worker *worker) {
    struct block received;
    for (unsigned i = 0; i < settings.thread_count; i++)
        while (queue_take(&places[i].queue, &received)) op_free(worker, &received);
}

/* A limit may refuse a request of some size, and not of another. */
static bool make_in_tour(struct worker *worker, struct block *block, enum call call,
                         enum tier tier) {
    bool is_made = false;
    for (unsigned tries = 0; !is_made && tries < TOUR_TRIES; tries++)
        is_made = op_make(worker, block, call, tier);
    return is_made;
}

/* Resizes a block some times and, if it is the tour's last one in the tier, by every call. */
static void resize_in_tour(struct worker *worker, struct block *block, enum tier tier,
                           bool is_last) {
    const uint64_t(*calls)[TIER_COUNT] = worker->place->tally.calls;
    for (unsigned tries = 0; tries < (is_last ? TOUR_TRIES : 8); tries++) {
        bool has_all = calls[REALLOC_UP][tier] > 0 && calls[REALLOC_DOWN][tier] > 0 &&
                       (settings.is_plain || calls[HEAP_REALLOC][tier] > 0);
        if (tries >= 8 && has_all) break;
        op_resize(worker, block, tier);
    }
}

/* Every call once in every tier, so that no count of a run is 0 by chance. */
static void tour(struct worker *worker) {
    static const enum call calls[] = {MALLOC,      CALLOC,      POSIX_MEMALIGN, ALIGNED_ALLOC,
                                      HEAP_MALLOC, HEAP_CALLOC, HEAP_ALIGNED};
    const size_t kinds = sizeof calls / sizeof calls[0] - (settings.is_plain ? 3 : 0);
    struct tally *tally = &worker->place->tally;
    empty_queues(worker);
    for (enum tier tier = TINY; tier < TIER_COUNT; tier++)
        for (size_t i = 0; i < kinds; i++) {
            struct block block = {0};
            if (!make_in_tour(worker, &block, calls[i], tier)) continue;
            if (i == 0 || i == 4)
                resize_in_tour(worker, &block, tier, i == (settings.is_plain ? 0 : 4));
            if (i == 1)
                op_hand_over(worker, &block);
            else
                op_free(worker, &block);
        }
    struct block kept = {0};
    bool is_kept = op_make(worker, &kept, MALLOC, TINY);
    while (tally->events[TRIM] == 0 || tally->events[MALLINFO] == 0 || tally->events[STATS] == 0)
        op_housekeeping(worker);
    if (is_kept) op_free(worker, &kept);
    for (unsigned i = 0; !settings.is_plain && i < 8; i++) {
        struct block one = {0};
        if (op_make(worker, &one, HEAP_MALLOC, TINY)) op_free(worker, &one);
        heaps_end(worker);
    }
    while (tally->events[UNMAPPED] == 0) foreign_step(&worker->place->foreign, &worker->rng, tally);
    fork_step(worker);
}

/* One after the other, and all before the first has more blocks than its tour's: on a busy machine too, each finds
 * the memory for it. */
static void tour_in_turn(struct worker *worker) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static atomic_uint toured;
    pthread_mutex_lock(&turn);
    tour(worker);
    pthread_mutex_unlock(&turn);
    atomic_fetch_add(&toured, 1);
    while (atomic_load(&toured) < settings.thread_count) usleep(1000);
    worker->place->has_toured = true;
}

/* Does the run still want so many operations? Takes them off the rest. */
static bool take_share(unsigned long long wanted) {
    unsigned long long left = atomic_load(&operations_left);
    do {
        if (left == 0) return false;
    } while (
        !atomic_compare_exchange_weak(&operations_left, &left, left > wanted ? left - wanted : 0));
    return true;
}

/* The next life in this place takes over most of the blocks. */
static void leave(struct worker *worker) {
    for (enum tier tier = TINY; tier < TIER_COUNT; tier++)
        for (unsigned i = 0; i < worker_slot_count(tier); i++) {
            struct block *block = &worker->place->slots[tier][i];
            if (block->content.ptr != NULL && rng_below(&worker->rng, 8) == 0)
                op_free(worker, block);
        }
    foreign_check(&worker->place->foreign);
}

/* The life of the running thread, for the report of a crash. */
static _Thread_local const struct worker *running;

static void crashed(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    check_failed("soak", running != NULL ? (int)running->life : -1,
                 "signal %d at address %p, in or after %s of %zu bytes", signal_number,
                 info->si_addr, running != NULL ? running->doing : "no call",
                 running != NULL ? running->doing_size : 0);
}

void worker_report_crashes(void) {
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static struct worker worker_make(struct place *place) {
    uint64_t index = (uint64_t)(place - places);
    uint64_t life = place->life_count++ * THREADS_MOST + index;
    struct worker worker = {.place = place,
                            .rng = rng_make(settings.seed * 1000003 + life),
                            .life = life,
                            .next_number = (life << 24) + 1,
                            .character = settings.character,
                            .doing = "no call"};
    if (worker.character == NULL)
        worker.character = &characters[rng_below(&worker.rng, CHARACTER_COUNT)];
    return worker;
}

static unsigned step_count(const struct worker *worker) {
    unsigned long long part = settings.operations / settings.thread_count / LIVES_OF_A_PLACE + 64;
    return worker->character->step_count < part ? worker->character->step_count : (unsigned)part;
}

void *worker_live(void *argument) {
    struct place *place = argument;
    struct worker worker = worker_make(place);
    unsigned steps = step_count(&worker);
    size_t interval = steps / EVENTS_OF_A_LIFE;
    running = &worker;
    tally_event(&place->tally, STARTS);
    if (!place->has_toured) tour_in_turn(&worker);
    unsigned long long counted = place->tally.operations;
    for (unsigned i = 0; i < steps; i++) {
        if (i % 64 == 0) {
            if (!take_share(place->tally.operations - counted)) break;
            counted = place->tally.operations;
            receive(&worker, 32);
        }
        step(&worker);
        if (rng_below(&worker.rng, interval) == 0) event(&worker);
    }
    leave(&worker);
    tally_event(&place->tally, ENDS);
    running = NULL;
    return NULL;
}

void worker_clear(struct place *place) {
    struct worker worker = worker_make(place);
    struct block received;
    while (queue_take(&place->queue, &received)) op_free(&worker, &received);
    for (enum tier tier = TINY; tier < TIER_COUNT; tier++)
        for (unsigned i = 0; i < SLOTS_MOST; i++)
            if (place->slots[tier][i].content.ptr != NULL) op_free(&worker, &place->slots[tier][i]);
    foreign_end(&place->foreign, &place->tally);
}
