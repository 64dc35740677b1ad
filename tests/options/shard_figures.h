/* shard_figures.h - figures that the options of shards move; each is taken in a process of its own. */
#ifndef TESTS_OPTIONS_SHARD_FIGURES_H
#define TESTS_OPTIONS_SHARD_FIGURES_H

long slabs_of_four_threads(void);
long slabs_on_one_cpu(void);
long threads_of_one_shard(void);
long blocks_of_another_shard(void);
long empty_slab_moves(void);

#endif
