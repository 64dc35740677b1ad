/* room.c: explores the protocol of src/meta/room.h, on the real room.c.
 *
 *   room             every scenario must hold
 *   room --broken    the sources were broken on purpose: some scenario must fail */
#include "meta/room.h"

#include <string.h>

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "meta/meta.h"
#include "scenarios.h"
#include "trace.h"

enum { ROOMS = 8, PIECE = HAK_ROOM_SMALL, LARGE = 2 * PIECE };
_Static_assert(sizeof((hak_room_t *)0)->bytes == LARGE, "a room for two small pieces");

static hak_room_t rooms[ROOMS];
static bool is_taken[ROOMS];
static unsigned made; /* rooms of this execution so far; what was given back is not used again */
static struct {
    hak_room_place_t place;
    _Atomic unsigned pieces;
} HAK_ALIGNED(HAK_LINE) shared;

/* ---- What rooms stand on --------------------------------------------------------------------- */

static bool has_no_memory;

void *hak_meta_alloc(size_t size) {
    EXPLORE_CHECK(size == sizeof(hak_room_t), "a room of %zu bytes", size);
    if (has_no_memory) return NULL;
    EXPLORE_CHECK(made < ROOMS, "too many rooms");
    hak_room_t *room = &rooms[made];
    is_taken[made++] = true;
    memory_write(room->bytes, sizeof room->bytes); /* which the compiler's memset does not tell */
    memset(room->bytes, 0, sizeof room->bytes);
    trace_holds(room, sizeof *room, "hak_room_t");
    return room;
}

void hak_meta_free(void *block, size_t size) {
    memory_forbid(block, size);
    is_taken[(hak_room_t *)block - rooms] = false;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    gates_reset(false);
    memset(is_taken, 0, sizeof is_taken);
    made = 0;
    has_no_memory = false;
    atomic_store_explicit(&shared.place, NULL, memory_order_relaxed);
    atomic_store_explicit(&shared.pieces, 0, memory_order_relaxed);
}

static bool is_in_a_room(const char *piece, size_t size) {
    for (unsigned i = 0; i < ROOMS; i++) {
        size_t start = (size_t)(piece - rooms[i].bytes);
        if (is_taken[i] && start < sizeof rooms[i].bytes) return start + size <= LARGE;
    }
    return false;
}

/* Each byte of a piece is written by one thread only. */
static bool cut(size_t size) {
    char *piece = hak_room_cut(&shared.place, size);
    if (!piece) return false;
    EXPLORE_CHECK(is_in_a_room(piece, size), "a piece that is not all in a room");
    for (size_t i = 0; i < size; i++) {
        EXPLORE_CHECK(!piece[i], "a piece is handed out twice");
        piece[i] = 1;
    }
    hak_add_relaxed(&shared.pieces, 1);
    return true;
}

static void cut_one(void) { EXPLORE_CHECK(cut(PIECE), "no piece, with memory left"); }
static void cut_two(void) {
    cut_one();
    cut_one();
}
static void cut_large(void) { cut(LARGE); }

/* Half of the first room is used. */
static void prepare_half(void) {
    prepare();
    cut_one();
}

static unsigned taken(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < ROOMS; i++) count += is_taken[i];
    return count;
}

static void they_share_one(void) {
    EXPLORE_CHECK(taken() == 1 && shared.pieces == 2, "%u rooms, %u pieces", taken(),
                  shared.pieces);
    has_no_memory = true;
    uint32_t before = atomic_load(&shared.place)->used;
    EXPLORE_CHECK(!cut(PIECE) && !cut(LARGE), "a piece of a full room");
    EXPLORE_CHECK(atomic_load(&shared.place)->used == before,
                  "who gets nothing moves the end on, in the end round");
}

static void they_share_two(void) {
    EXPLORE_CHECK(taken() == 2 && shared.pieces == 4, "%u rooms, %u pieces", taken(),
                  shared.pieces);
}

/* A large piece makes no room. */
static void none_is_made_for_a_large_one(void) {
    unsigned rest = shared.pieces - 1;
    EXPLORE_CHECK(taken() == 1 && rest == 1, "%u rooms, %u more pieces", taken(), rest);
}

/* The child of a fork has the room, or its memory is free. */
static void prepare_fork(void) {
    prepare();
    gates_reset(true);
}
static void fork_beside(void) {
    gates_fork();
    EXPLORE_CHECK(taken() == (atomic_load(&shared.place) != NULL), "the child has lost a room");
}

static const char *describe(const volatile void *variable) {
    return variable == &shared.place ? "the place" : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"two threads make the first room",
     prepare,
     {cut_one, cut_one},
     .finally = they_share_one,
     .describe = describe},
    {"two threads need a room and another one",
     prepare,
     {cut_two, cut_two},
     .finally = they_share_two,
     .describe = describe},
    {"three threads, and half a room",
     prepare_half,
     {cut_one, cut_one, cut_one},
     .finally = they_share_two,
     .describe = describe},
    {"a large piece does not fit",
     prepare_half,
     {cut_large, cut_one},
     .finally = none_is_made_for_a_large_one,
     .describe = describe},
    {"a room is made beside a fork", prepare_fork, {cut_one, fork_beside}, .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(rooms, sizeof rooms);
    memory_track(&shared, sizeof shared);
    trace_holds(&shared.place, sizeof shared.place, "record_t.room");
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
