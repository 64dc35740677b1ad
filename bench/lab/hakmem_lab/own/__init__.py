"""A program of the user's own on several allocators: timed, counted, and its memory over time."""
