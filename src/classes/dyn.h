/* dyn.h: the dynamic class: one more size class, whose size is chosen at run time.
 *
 * It is chosen once in the life of a process, by the user (HAKMEM_MID_DYN1=bytes) or by the
 * adaptive class engine (policy/dyn_size.h). Blocks allocated before stay in their classes.
 *
 * PROTOCOL of the choice
 *   C1  state: NONE -> CHOOSING by compare-and-swap, so exactly one thread continues
 *   C2  that thread writes the row hak_classes[HAK_CLASS_DYN]
 *   C3  it stores each of the routes with release; hak_class_of loads with acquire
 *   C4  it stores the size with release, for readers of all classes (statistics)
 *
 * A thread learns of the class in one of two ways: by a route (C3), or by a block, which it
 * got from a thread that used a route, or whose slab names the class. Either way it sees the
 * row that C2 wrote, which never changes again.
 * Rejected: a second choice while the class has no slab. A thread may have read the old route
 * for a size that only the old row fits, and then take a block of the new size. */
#pragma once

#include "classes/classes.h"

/* Makes `size` bytes, 2049..65536, the dynamic class, rounded up to a multiple of
 * HAK_ROUTE_STEP. Returns its size; 0 when the class was chosen before. The class that serves
 * the size is then hak_class_of(size): a fixed one, if that has the very size. */
size_t hak_dyn_choose(size_t size);

/* Size of its blocks; 0 while there is no such class. After a result above 0 the caller may
 * read the row. */
size_t hak_dyn_size(void);

/* Size of the blocks of any class, for callers that look at all classes. */
HAK_FAST_PATH size_t hak_dyn_size_of(unsigned class_index) {
    return class_index == HAK_CLASS_DYN ? hak_dyn_size() : hak_classes[class_index].size;
}

/* A dynamic class of `size` serves the sizes first .. size; this returns `first`. The range
 * covers the sizes of its fixed class, and of smaller classes that have no more blocks in a
 * slab, but no size that it would make more than an eighth larger. One class for all of them
 * has fewer partly used slabs, and a block freed by one size can serve another. Where a fixed
 * class has the very size, the range is empty (size + 1): that class serves as the dynamic one. */
size_t hak_dyn_first(size_t size);
