/* once.h: a record that is made at its first use, and that a pointer leads to from then on.
 *
 * PROTOCOL. The pointer is NULL until a CAS with release publishes the record, and constant from
 * then on. If several threads make the record at once, one publishes its own; the others free
 * theirs and use that one. A thread that loads the pointer with acquire sees a record that was all
 * zero.
 *
 * All this is done inside the gate (os/gate.h): the pages of a fork's child are copied one after the
 * other, and the child must not have the pointer without the zeroed record, nor a record that nothing leads to. */
#pragma once

#include "base/base.h"

/* The record of `size` bytes behind the atomic pointer at `place`, which was NULL a moment ago;
 * NULL without memory. *is_mine, unless `is_mine` is NULL: whether this call has published it. */
void *hak_once_make(void *place, size_t size, bool *is_mine);
