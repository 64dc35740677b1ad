/* memory.h: how other files tell the machine of an access. */
#pragma once

#include "machine.h"

enum { PAUSE_NS = 40 }; /* a turn of a spin loop that pauses */

/* An access of the calling thread; nothing before the simulation begins. */
void scale_access(const void *addr, size_t size, access_t kind, const void *pc);
