/* pool_figures.h - figures that the options of superslabs move; each is taken in a process of its
 * own. */
#pragma once

/* A figure of the statistics. */
long statistic(const char *name);

long superslab_kib(void);
long superslabs_of_slabs(void);
long units_released_in_part(void);
long budget_hits(void);
