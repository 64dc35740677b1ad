/* values.h: the values of the options, to options.c, which writes them. */
#pragma once

#include "options/options.h"

extern _Atomic int64_t hak_option_values[HAK_OPTION_COUNT];
