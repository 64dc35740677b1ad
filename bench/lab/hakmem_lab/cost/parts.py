"""Whose an instruction is: the allocator's, a copy's, the loader's, or the rest of the program.

The allocator's are all functions of its library; of glibc those with the names below. Copies are
the functions that move and set memory, whoever's they are: some allocators bring their own, others
call the C library's, and each counts the same here.
"""

import re
from pathlib import Path

PARTS = ("allocator", "copies", "loader", "rest")

COPY = re.compile(r"^(?:.*::)?_*(?:w?mem(?:p?cpy|move|set|zero)|bzero)(?:_|\b|$)")
LOADER = re.compile(r"^ld[-.]")
GLIBC = re.compile(r"^libc[-.]")
GLIBC_ALLOCATOR = re.compile(
    r"^(?:__libc_|__|_mid_)?(?:malloc|calloc|realloc|reallocarray|free|cfree|memalign|valloc|pvalloc"
    r"|aligned_alloc|posix_memalign|malloc_usable_size)$"
    r"|^_int_(?:malloc|free|realloc|memalign)|^(?:sysmalloc|systrim|unlink_chunk|malloc_consolidate"
    r"|malloc_init|ptmalloc_init|tcache_|_?arena_|get_free_list|new_heap|grow_heap|shrink_heap"
    r"|heap_trim|alloc_perturb|free_perturb|mremap_chunk|munmap_chunk|detach_arena|mem2chunk"
    r"|__glibc_morecore|__default_morecore)"
)
SUFFIX = re.compile(r"'\d+$|\.(?:constprop|part|isra|cold|lto_priv)\.?\d*|@.*$")


def plain(name) -> str:
    """The name as the source has it: without what compilers and callgrind append."""
    while (shorter := SUFFIX.sub("", name)) != name:
        name = shorter
    return name


class Judge:
    """Knows one allocator's library; None is the C library's own."""

    def __init__(self, library):
        self.library = Path(library).resolve() if library else None

    def part(self, where, function) -> str:
        """The part of PARTS that a function of the object `where` belongs to."""
        file, name = Path(where).name, plain(function)
        if COPY.match(name):
            return "copies"
        if self.library is not None and where and Path(where).resolve() == self.library:
            return "allocator"
        if GLIBC.match(file) and self.library is None and GLIBC_ALLOCATOR.match(name):
            return "allocator"
        return "loader" if LOADER.match(file) else "rest"

    def split(self, functions) -> tuple:
        """({part: instructions}, {allocator's or copying function: instructions}) of Ir by (object, function)."""
        sums, named = dict.fromkeys(PARTS, 0), {}
        for (where, function), count in functions.items():
            part = self.part(where, function)
            sums[part] += count
            if part in ("allocator", "copies"):
                named[plain(function)] = named.get(plain(function), 0) + count
        return sums, dict(sorted(named.items(), key=lambda item: -item[1]))
