"""Heap profiles that HAKMEM_PROF=1 writes: read, given names, turned into pprof's form and into a page."""
