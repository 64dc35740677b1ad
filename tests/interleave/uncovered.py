"""Shared words that no scenario covers yet, each with the reason; coverage.py checks the list."""

REASONS = [
    (
        "a lock whose sections are plain code: the lock itself is explored by interleave.lock, "
        "what it guards has no scenario yet",
        [
            "hak_cache.stack_lock",
            "hak_meta_lock",
            "hak_pool_lock",
            "hak_region_lock",
            "hak_snapshot_lock",
            "hak_thread_list_lock",
            "src/live/live.c: refresh_lock",
            "src/thread/sampler.c: sampler_lock",
            "src/thread/verify.c: verify_lock",
        ],
    ),
    (
        "written under the huge tier's lock, read by anyone as a hint",
        [
            "hak_huge_stats_t.bytes",
            "hak_huge_stats_t.mapped",
            "hak_huge_stats_t.unmapped",
        ],
    ),
    (
        "the live page: written by one thread at a time, read by another process, which looks "
        "again where the sequence has changed; no scenario yet",
        [
            "hak_live_head_t.sequence",
            "src/live/fill.h: asked_bytes",
            "src/live/fill.h: served_bytes",
            "src/live/live.c: due_ms",
        ],
    ),
    (
        "the purge in pieces: an owner by exchange, notes that are taken with an exchange; no "
        "scenario yet",
        [
            "hak_budget_notes",
            "hak_purge_stats_t.most_bytes",
            "hak_purge_stats_t.most_looks",
            "hak_purge_stats_t.pieces",
            "hak_shard_grown",
            "hak_shard_visits_due",
            "src/thread/ahead.c: falls",
            "src/thread/ahead.c: kept",
            "src/thread/purge.c: busy",
            "src/thread/purge.c: calls_so_far",
            "src/thread/purge.c: has_hurry",
            "src/thread/purge.c: has_pass",
            "src/thread/purge.c: next_ms",
            "src/thread/purge.c: the_watcher",
        ],
    ),
    (
        "the look at bands: one looker by a lock that is only tried, the figures are hints; no "
        "scenario yet",
        [
            "hak_sampler_stats_t.looks",
            "hak_sampler_stats_t.scores",
            "hak_policy_bands",
            "src/thread/sampler.c: next_ms",
            "src/thread/sampler.c: next_rounds",
            "src/thread/sampler.c: rounds",
        ],
    ),
    (
        "an approximate sum or hint: any value that was once there is right for its readers; no "
        "scenario yet",
        [
            "hak_bin_rare_t.left",
            "hak_bin_rare_t.remote",
            "hak_heap_t.idle",
            "hak_heap_t.last_home",
            "hak_heap_t.runs",
            "hak_pool_lent",
            "hak_pool_stats_t.held_units",
            "hak_pool_stats_t.ragged_units",
            "hak_pool_stats_t.stage3",
            "hak_pool_stats_t.unmapped",
            "hak_pool_stats_t.used_units",
            "hak_bin_t.spare_age",
            "hak_bin_t.spare_seen",
            "hak_warm.counts",
            "hak_warm_ring_t.carved",
            "src/cache/cache.c: budgets",
            "src/large/large.c: idle_published",
            "src/shard/bin.c: slab_counts",
            "src/shard/sparse.c: taken",
            "src/shard/sparse.c: visits",
        ],
    ),
    (
        "the dynamic class's engine: samples are hints, the choice itself is explored by "
        "interleave.dyn",
        [
            "src/cache/ace.c: by_class",
            "src/cache/ace.c: by_size",
            "src/cache/ace.c: candidate",
            "src/cache/ace.c: looks",
            "src/cache/ace.c: samples",
            "src/cache/ace.c: waste",
        ],
    ),
    (
        "written by the owner of a cache, read by the thread that purges or reports under the "
        "stack's lock; no scenario of the cache yet",
        [
            "hak_magazine_t.top",
            "hak_cache.warm",
            "hak_cache_counts_t.flushed",
            "hak_warm_cache.warm",
            "hak_lifo.count",
        ],
    ),
    (
        "a value that each thread finds alike, kept after the first look, or a step that is made "
        "once",
        [
            "hak_mapping_threshold",
            "hak_records",
            "src/large/large.c: prepared",
            "src/options/options_load.c: begun",
            "src/options/options_load.c: is_loaded",
            "src/os/cpu.c: allowed",
            "src/os/cpu.c: known_count",
            "src/os/cpu.c: others",
            "src/os/os_linux.c: cached",
            "src/os/os_linux.c: known",
            "src/os/os_linux.c: refused",
            "src/os/os_linux.c: works",
            "src/os/place.c: top",
            "src/pool/pool.c: lender",
            "src/shard/shard.c: shard_count",
            "src/stats/exit.c: is_prepared",
            "src/thread/fork.c: installed",
        ],
    ),
    (
        "an option: one value, stored and read relaxed",
        [
            "src/options/options.c: sources",
            "src/options/options.c: values",
        ],
    ),
    (
        "the region as it grows: written under its lock, read by anyone; no scenario yet",
        [
            "hak_map_t.entries[]",
            "hak_map_t.unit_end",
            "hak_superslab.mapped",
            "src/region/region.c: carved",
            "src/region/region.c: mapped",
            "src/region/zone.c: states",
        ],
    ),
    (
        "of one thread and its signal handlers, which no scenario has; the steps are argued in gate.c",
        [
            "hak_gate_thread_t.noted_at",
        ],
    ),
    (
        "a fork: written by its thread before others run again, or in the child, which is alone",
        [
            "hak_gate_t.generation",
            "src/thread/fork.c: alone",
        ],
    ),
    (
        "written under the list lock, read as a hint; no scenario yet",
        [
            "hak_bin_used_shards",
            "src/thread/thread.c: next_ms",
            "src/thread/thread.c: thread_count",
        ],
    ),
    (
        "homes by the count of CPUs, any value that was there is right; no scenario yet",
        [
            "src/shard/shard.c: home_count",
        ],
    ),
]

UNCOVERED = {word: reason for reason, words in REASONS for word in words}
