/* values.h: the values of the options; internal to options/. options.c writes them. */
#pragma once

#include "options/options.h"

extern _Atomic int64_t hak_option_values[HAK_OPTION_COUNT];
