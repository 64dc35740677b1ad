/* call_paths.c: the counters of call_paths.h. */
#include "debug/call_paths.h"

#if HAKMEM_DEBUG

_Atomic uint64_t hak_calls[HAK_CLASS_LIMIT][HAK_CALLS];
_Atomic uint64_t hak_ways[HAK_WAYS];

#endif
