/* describe.h: what the report of an error tells about a pointer. */
#pragma once

#include "base/base.h"

/* Writes the block that a pointer belongs to and its neighbours to the report. No lock is held, so what
 * other threads change meanwhile may be wrong in the report. */
HAK_SLOW_PATH void hak_describe(const void *pointer);
