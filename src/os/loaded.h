/* loaded.h: what the files that the loader has mapped define. */
#pragma once

#include "base/base.h"

/* True when a loaded file other than this one exports a function of that name. Files whose own names begin with a text
 * of `except` do not count; each text ends with a 0, and an empty one ends the list. False when the system does not
 * tell. */
bool hak_os_others_define(const char *function, const char *except);
