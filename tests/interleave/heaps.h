/* heaps.h: steps of scenarios for heaps of the program's own. */
#pragma once

void with_heap(void);
void without_blocks(void);
void with_limit(void);
void fill_heap_and_post(void);
void await_and_free_of_heap(void);
void use_heap(void);
void use_heap_too(void);
void huge_of_heap(void);
void huge_of_heap_too(void);
void begin_and_end_heaps(void);
void begin_and_end_heaps_too(void);
void list_heaps(void);
void use_heap_and_fork(void);
void check_heap(void);
void with_one_block(void);
void free_one_block(void);
void check_one_report(void);
void with_reports(void);
void huge_and_free_one(void);
void empty_heap(void);
void check_empty_heap(void);
