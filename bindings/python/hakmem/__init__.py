"""Statistics, options and limits of the HAKMEM allocator that serves this process.

A process runs on HAKMEM if it was started by `hakmem run -- python app.py`, with LD_PRELOAD, or by a
program that is linked with it. Otherwise is_active() is False, and the functions that ask the library
raise NotActive.
"""

from ._binding import (Figure, Heap, NotActive, Option, figures, heaps, is_active, library, limit,
                       options, set_limit, set_soft_limit, soft_limit, stat, stats, trim, version)

__all__ = ["Figure", "Heap", "NotActive", "Option", "figures", "heaps", "is_active", "library",
           "limit", "options", "set_limit", "set_soft_limit", "soft_limit", "stat", "stats", "trim",
           "version"]
