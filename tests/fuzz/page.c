/* page.c - the readers of the live page of another process: `hakmem stat`, `top` and `explain`.
 *
 * The page is that of tests/command/pages.c. Each four bytes of an input change one of it: where (a part of
 * the page, an offset of two bytes) and the value. */
#include "fuzz.h"

int pages_main(int argc, char **argv);
#define main pages_main /* its tables and checks are wanted, its program is not */
#include "../command/pages.c"
#undef main

static void change(struct fuzz_input *input) {
    static const size_t parts[] = {0,
                                   offsetof(hak_live_page_t, cache_count),
                                   offsetof(hak_live_page_t, ranges),
                                   offsetof(hak_live_page_t, superslabs),
                                   offsetof(hak_live_page_t, options),
                                   offsetof(hak_live_page_t, stats)};
    size_t at = parts[fuzz_byte(input) % (sizeof parts / sizeof *parts)];
    at += fuzz_word(input);
    ((unsigned char *)page)[at % sizeof *page] = (unsigned char)fuzz_byte(input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char name[NAME_SIZE];
    struct fuzz_input input = {data, size};
    if (!*name) prepare(name);
    make_page();
    unsigned how = fuzz_byte(&input);
    while (input.left > 0) change(&input);
    page->head.sequence &= ~1u; /* else the reader waits for its end */
    /* A look at all of the process's memory takes a tenth of a second. */
    if (how == 255)
        read_as_command(name);
    else if (how == 254)
        read_page();
    else
        live_problem(page, sizeof *page - how % 3);
    return 0;
}
