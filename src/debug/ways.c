/* ways.c: the counters of ways.h. */
#include "debug/ways.h"

#if HAKMEM_DEBUG

_Atomic uint64_t hak_calls[HAK_CLASS_LIMIT][HAK_CALLS];
_Atomic uint64_t hak_ways[HAK_WAYS];

#endif
