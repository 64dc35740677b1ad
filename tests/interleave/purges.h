/* purges.h: steps of scenarios in which memory is given back. */
#pragma once

enum { HELPER = 4 }; /* the thread that pthread_create starts */

void purge_at_once(void);
void hold_units(void);
void under_pressure(void);
void with_helper(void);
void more_cpus(void);
void fill_and_empty(void);
void fill_and_empty_too(void);
void grow_soon(void);
void grow(void);
void grow_too(void);
void show_superslabs(void);
void no_thread(void);
void some_ragged(void);
void free_and_purge(void);
void take_ragged(void);
