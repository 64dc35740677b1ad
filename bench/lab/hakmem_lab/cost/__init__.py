"""What an allocator costs a program, in counts that are the same every time."""
