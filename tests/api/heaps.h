/* heaps.h - what the parts of the test of heaps share. */
#pragma once

enum { GRAIN = 16, UNIT = 65536, MIB = 1 << 20 };

/* A test of cmocka's (heaps_misuse.c). */
void misuse_of_heaps_ends_in_a_line(void **state);

/* The same (heaps_resize.c). */
void short_blocks_are_resized_in_place(void **state);
void long_blocks_are_resized_in_place(void **state);
void blocks_that_grow_keep_to_their_superslab(void **state);
void huge_blocks_are_resized_in_place(void **state);
void no_fork_waits_for_a_copy(void **state);
