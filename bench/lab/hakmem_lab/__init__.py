"""The benchmark engine of HAKMEM: tables of workloads and allocators over one runner."""
