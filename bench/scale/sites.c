/* sites.c: an open hash table of places in the code. */
#include "sites.h"

#include <stdio.h>
#include <stdlib.h>

static site_t sites[SITES_MOST];
static uint32_t table[2 * SITES_MOST]; /* index + 1 */
static uint32_t count;

uint32_t sites_index(const void *pc) {
    uint32_t i = (uint32_t)(((uintptr_t)pc * 0x9E3779B97F4A7C15u) >> 47);
    while (table[i] && sites[table[i] - 1].pc != pc) i = (i + 1) % (2 * SITES_MOST);
    if (!table[i]) {
        if (count == SITES_MOST) {
            fputs("scale: too many places in the code\n", stderr);
            _Exit(3);
        }
        sites[count].pc = pc;
        table[i] = ++count;
    }
    return table[i] - 1;
}

site_t *sites_at(uint32_t index) { return &sites[index]; }
uint32_t sites_count(void) { return count; }

void sites_reset(void) {
    for (uint32_t i = 0; i < count; i++) sites[i] = (site_t){.pc = sites[i].pc};
}
