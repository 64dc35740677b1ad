/* loaded.h: what the files that the loader has mapped define. */
#pragma once

#include "base/base.h"

/* True when a loaded file other than this one exports a function of that name. Files whose own names begin as one of
 * `except` do not count: texts, each with a 0 behind it, and an empty one at the end. False when the system does not
 * tell. */
bool hak_os_others_define(const char *function, const char *except);
