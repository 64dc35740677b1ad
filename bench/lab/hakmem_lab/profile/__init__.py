"""The profiling report: where HAKMEM and the system allocator spend their time."""
