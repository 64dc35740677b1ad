"""docs/PERF_COMPARISON_ALLOCATORS.md and its charts, made from a comparison's folder."""
