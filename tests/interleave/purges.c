/* purges.c: what is given back, at once, under pressure and by the helper thread. */
#include "purges.h"

#include "explore.h"
#include "hakmem.h"
#include "live_stats/fill.h"
#include "process.h"
#include "program.h"
#include "region/region.h"

void purge_at_once(void) {
    program_start(OPTIONS("PURGE_DELAY_MS=0", "PURGE_THREAD=0", "SHARDS=2"));
    process.tick_ms = 300;
}
void hold_units(void) {
    program_start(OPTIONS("PURGE_DELAY_MS=0", "TINY_SS_PARTIAL=0", "SHARDS=2"));
    process.tick_ms = 300;
}
void under_pressure(void) {
    program_start(OPTIONS("LIMIT_SOFT=1M", "PURGE_THREAD=0", "SS_SIZE=512K"));
    process.tick_ms = 300;
}
void with_helper(void) {
    program_start(OPTIONS("PURGE_DELAY_MS=0", "PURGE_THREAD=2", "SS_SIZE=512K"));
    process.tick_ms = 100;
    process.helper = HELPER;
}
void more_cpus(void) {
    program_begin();
    process.cpus = 1;
    process.tick_ms = 3000;
    process_start();
    hakmem_free(hakmem_malloc(1));
    process.cpus = 4;
}
void fill_and_empty(void) {
    program_malloc_all(0, 20, PAGES);
    program_malloc(20, LARGE);
    program_malloc(21, HUGE);
    program_free_all(0, 22);
}
void fill_and_empty_too(void) {
    program_malloc_all(32, 10, PAGES);
    program_malloc(42, HUGE);
    program_free_all(32, 11);
}
void grow_soon(void) {
    program_start(OPTIONS("PURGE_DELAY_MS=0", "PURGE_THREAD=0", "SHARDS=2", "SS_SIZE=512K"));
    program_malloc_all(0, 6, RAGGED);
}
void grow(void) { program_malloc_all(6, 4, RAGGED); }
void grow_too(void) { program_malloc_all(16, 4, RAGGED); }
/* Without the region's lock, as a search for a record. This file is compiled without calls to the explorer. */
void __tsan_read8(void *address);
static void read_units(hak_superslab_t *super, void *unused) {
    (void)unused;
    __tsan_read8(&super->units);
}
void show_superslabs(void) {
    static hak_live_page_t page;
    static hak_live_private_t records;
    hak_live_private = &records;
    hak_region_each_superslab(read_units, NULL);
    hak_live_fill_superslabs(&page);
}
void no_thread(void) {}

/* Few steps, so that every order with one preemption is tried. */
void some_ragged(void) {
    program_start(OPTIONS("PURGE_DELAY_MS=0", "PURGE_THREAD=0", "SHARDS=1"));
    program_malloc_all(0, 3, RAGGED);
}
void free_and_purge(void) {
    program_free_all(0, 2);
    hakmem_malloc_trim(0);
}
void take_ragged(void) { program_malloc_all(8, 2, RAGGED); }
