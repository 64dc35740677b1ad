/* ways.c: the counters of ways.h. */
#include "debug/ways.h"

#if HAKMEM_DEBUG

_Atomic uint64_t hak_calls[HAK_CLASS_LIMIT][HAK_CALLS];
_Atomic uint64_t hak_ways[HAK_WAYS];

unsigned hak_ways_found(unsigned way, unsigned count) {
    if (count) HAK_COUNT_WAY(way);
    return count;
}

#endif
