/* shard_figures.h - figures that the options of shards move; each is taken in a process of its own. */
#pragma once

long slabs_of_four_threads(void);
long slabs_on_one_cpu(void);
long threads_of_one_shard(void);
long blocks_of_another_shard(void);
long empty_slab_moves(void);
