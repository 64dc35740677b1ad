/* room.c: cuts pieces off a room; one word says where the next piece begins. */
#include "meta/room.h"

#include "meta/meta.h"
#include "os/gate.h"

static void *cut(hak_room_t *room, size_t size) {
    uint32_t used = hak_load_relaxed(&room->used);
    size_t start;
    do {
        start = hak_align_up(used, hak_min(size, HAK_LINE));
        if (start + size > sizeof room->bytes) return NULL;
    } while (!hak_cas_acquire(&room->used, &used, (uint32_t)(start + size))); /* R2 */
    return room->bytes + start;
}

/* Inside the gate. */
static HAK_BEHIND void *cut_present(hak_room_place_t *place, size_t size) {
    hak_room_t *room = hak_load_acquire(place); /* R1 */
    for (;;) {
        void *piece = room ? cut(room, size) : NULL;
        if (piece || size > HAK_ROOM_SMALL) return piece;
        hak_room_t *renewed = hak_meta_alloc(sizeof *renewed);
        if (!renewed) return NULL;
        hak_store_relaxed(&renewed->used, (uint32_t)size);
        if (hak_cas_release(place, &room, renewed)) return renewed->bytes; /* R3 */
        hak_meta_free(renewed, sizeof *renewed);
        room = hak_load_acquire(place);
    }
}

HAK_BEHIND void *hak_room_cut(hak_room_place_t *place, size_t size) {
    hak_gate_enter();
    void *piece = cut_present(place, size);
    hak_gate_leave();
    return piece;
}
