/* heaps.h - what the two halves of the test of heaps share. */
#pragma once

enum { GRAIN = 16, UNIT = 65536, MIB = 1 << 20 };

/* A test of cmocka's (heaps_misuse.c). */
void misuse_of_heaps_ends_in_a_line(void **state);
