/* text.h: questions about texts. HAKMEM does not use the C library's functions for them: at each start of a process, the
 * loader looks up every symbol that the library imports, with some 700 instructions for each. */
#pragma once

#include "base/base.h"

/* True when a text begins with `size` characters, none of which is 0. */
HAK_FAST_PATH bool hak_begins_with(const char *text, const char *start, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (text[i] != start[i]) return false;
    return true;
}

/* True when two texts are the same. */
HAK_FAST_PATH bool hak_is_same(const char *text, const char *other) {
    while (*text && *text == *other) text++, other++;
    return *text == *other;
}

/* The place of the last character `c` in a text, or NULL. */
HAK_FAST_PATH char *hak_last_in(const char *text, char c) {
    const char *last = NULL;
    for (; *text; text++)
        if (*text == c) last = text;
    return (char *)(uintptr_t)last;
}
