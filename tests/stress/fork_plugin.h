/* fork_plugin.h - a library with fork handlers that allocate. */
#pragma once

#include <stdbool.h>

/* From now on the handlers hold the library's mutex over a fork; before the first thread. */
void plugin_hold_mutex(void);

/* From now on each handler calls this, too. */
void plugin_set_extra(void (*function)(void));

/* Allocates, with that mutex held if there is one. */
void plugin_work(void);

/* Handlers that ran in this process and, before the fork, in its parents. */
unsigned long plugin_calls(void);
