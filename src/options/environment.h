/* environment.h: the values of the environment, read at the start of the process. */
#pragma once

#include "base/base.h"

/* True once hak_options_load is done: the values of the environment are there. */
bool hak_options_loaded(void);

/* Reads the environment, once; later calls return at once. An unknown variable, or a value
 * that the option does not accept, gives one line on stderr and changes nothing. */
void hak_options_load(void);
