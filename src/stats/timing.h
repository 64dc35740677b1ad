/* timing.h: writes the times of the debug build. */
#pragma once

#include "stats/out.h"

#if HAKMEM_DEBUG
/* True when HAKMEM_TIMING is on; writes the times so far, as text and as JSON. */
bool hak_stats_times(void);
void hak_stats_write_timing(hak_out_t *out);
void hak_stats_write_timing_json(hak_out_t *out);
#else
HAK_FAST_PATH bool hak_stats_times(void) { return false; }
HAK_FAST_PATH void hak_stats_write_timing(hak_out_t *out) { (void)out; }
HAK_FAST_PATH void hak_stats_write_timing_json(hak_out_t *out) { (void)out; }
#endif
