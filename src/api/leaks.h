/* leaks.h: the heap profile and the report of leaks at the end of the process. */
#pragma once

#include "base/base.h"

/* Writes what the options ask for. With HAKMEM_LEAK, first finds out which sampled blocks the program can
 * still reach. */
HAK_SLOW_PATH void hak_leaks_report(void);
