/* room.h: a bump allocator without a lock, for the small records of a shard.
 *
 * A room is a chunk of memory that is cut up from low to high addresses; nothing is given back to
 * it. So a shard takes the process-wide hak_meta_lock once for each room, not once for each slab.
 * Different shards write to different cache lines.
 *
 * PROTOCOL
 *
 *   R1  load of the place, with acquire: the present room, NULL at first
 *   R2  CAS of the room's `used`, from a value behind which the piece fits to the end of the piece.
 *       The piece belongs to this thread alone
 *   R3  if a small piece does not fit: CAS of the place, from the room of R1 to a new room, with
 *       release. The piece lies at the beginning of the new room. A thread that loses frees its
 *       room and begins again at R1
 *
 * R1 to R3 are made inside the gate (os/gate.h): the child of a fork has a room in its place, or its memory among the
 * free records.
 *
 * Pieces smaller than a cache line may share one; larger ones do not.
 *
 * Rejected:
 *  - an addition in R2: threads that find no room would still advance `used`, until it wraps and a
 *    piece is handed out twice
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
