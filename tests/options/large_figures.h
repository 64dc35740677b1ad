/* large_figures.h - figures that the options of large and huge blocks and of committed memory move;
 * each is taken in a process of its own. */
#pragma once

long units_of_a_run(void);
long large_transferred(void);
long large_from_others(void);
long large_purge_calls(void);
long huge_mib_kept(void);
long mib_until_refused(void);
long dirty_mib_with_a_limit(void);
long live_in_mid(void);
long live_in_large(void);
long huge_superslabs(void);
long huge_superslabs_of_a_small_heap(void);
long advice_for_a_huge_block(void);
long populated_units(void);
long records_of_forty(void);
long record_bytes_of_forty(void);
