/* hardened_figures.h - figures that the options of the hardened path move; each is taken in a process
 * of its own. */
#pragma once

long usable_of_hundred(void);
long frees_until_used_again(void);
long neighbours_in_order(void);
long blocks_as_large_as_requested(void);
long bytes_left_by_a_free(void);
long after_a_write_after_free(void);
long after_a_free_of_another_size(void);
long pages_behind_with_no_access(void);
long guard_units(void);
long empty_blocks_with_no_access(void);
