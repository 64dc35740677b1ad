/* room.h: a bump allocator without a lock, for the small records of a shard.
 *
 * A room is a chunk of memory that is cut up from low to high addresses; nothing is given back to
 * it. So a shard takes the process-wide hak_meta_lock once for each room, not once for each slab.
 * Different shards write to different cache lines.
 *
 * PROTOCOL
 *
 *   R1 the present room: a load with acquire; NULL at first R2 CAS of its `used`, from a value that
 *   leaves enough to the end of the piece: the piece is this
 *       thread's alone
 *   R3  a small piece that does not fit: CAS of the place, from the room of R1 to a new one, with
 *       release; the piece lies at its beginning. A thread that loses frees its room and begins at
 *       R1
 *
 * Pieces smaller than a cache line may share one; larger ones do not.
 *
 * Rejected:
 *  - an addition in R2: threads that find no room would still advance `used` until it wraps, and a
 *    piece would be handed out twice
 *  - a new room for a large piece: the rest of the present room would be lost. */
#pragma once

#include "base/base.h"

enum {
    HAK_ROOM_SIZE = 64 * 1024, /* with its header */
    HAK_ROOM_SMALL = 1024,     /* bytes of a piece for which a new room is made, at most */
};

typedef struct {
    _Atomic uint32_t used; /* atomic; bytes behind the header that are handed out */
    char bytes[HAK_ROOM_SIZE - HAK_LINE] HAK_ALIGNED(HAK_LINE);
} HAK_ALIGNED(HAK_LINE) hak_room_t;

typedef _Atomic(hak_room_t *) hak_room_place_t;

/* A piece of `size` bytes, a power of two from 16 on, with undefined contents. NULL when a large
 * piece does not fit, or there is no memory. */
void *hak_room_cut(hak_room_place_t *place, size_t size);
