/* dyn.h: the dynamic class: one size class more, whose size is found at run time.
 *
 * It is chosen once in the life of a process, by the user (HAKMEM_MID_DYN1=bytes) or by the
 * adaptive class engine (cache/ace.h). Blocks handed out before stay in their classes.
 *
 * PROTOCOL of the choice
 *   C1  state: NONE -> CHOOSING by one step, so one thread goes on
 *   C2  the row hak_classes[HAK_CLASS_DYN] is written
 *   C3  each of its routes is stored with release; hak_class_of loads with acquire
 *   C4  the size is stored with release, for who looks at all classes (statistics)
 *
 * A thread comes to the class by a route (C3), or by a block, which it has from a thread
 * that did, or whose slab names the class: so it sees the row as C2 left it, for ever.
 * Rejected: a second choice, while the class has no slab. A thread may have read the route
 * for a size that fits the old row only, and take a block by the new one. */
#ifndef HAK_DYN_H
#define HAK_DYN_H

#include "classes/classes.h"

/* Makes `size` bytes, 2049..65536, the dynamic class, rounded up to what routes can tell
 * apart. Returns its size, 0 when it was chosen before. */
size_t hak_dyn_choose(size_t size);

/* Size of its blocks; 0 while there is no such class. Its row may be read after that. */
size_t hak_dyn_size(void);

/* Size of the blocks of any class, for who looks at all of them. */
HAK_FAST_PATH size_t hak_dyn_size_of(unsigned class_index) {
    return class_index == HAK_CLASS_DYN ? hak_dyn_size() : hak_classes[class_index].size;
}

/* Smallest class that holds `size` bytes, 1 or more, at a multiple of `align`, a power of two
 * up to 64 KiB; above 2 KiB and 128 bytes of alignment that of a power of two. */
unsigned hak_dyn_class_aligned(size_t size, size_t align);

/* The sizes that a dynamic class of `size` serves are first .. size: those of its fixed
 * class, and of smaller ones that have no more blocks in a slab, but none to which it adds
 * more than an eighth. One class for them has fewer partly used slabs, and a block freed by
 * one size serves the other. */
size_t hak_dyn_first(size_t size);

#endif
