/* amount.h: formats bytes and counts for people. */
#pragma once

#include <stdint.h>

enum { AMOUNT_SIZE = 24 };

/* "0 B", "999 B", "1.0 KiB", "85.2 MiB"; a negative number has its sign. Returns `text`. */
const char *amount_of_bytes(char text[AMOUNT_SIZE], int64_t bytes);

/* "0", "9999", "10.0 k", "1.2 M". */
const char *amount_of_count(char text[AMOUNT_SIZE], uint64_t count);
