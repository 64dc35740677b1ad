#define _GNU_SOURCE
#include "foreign.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static size_t whole_pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

static void check(const struct content *content) {
    if (content_is_right(content, content->ptr, content->size)) return;
    struct content_fault fault = content_fault(content, content->ptr, content->size);
    check_failed(__FILE__, __LINE__,
                 "foreign mapping %p of %zu bytes has changed: offset %zu expected %#" PRIx64
                 " found %#" PRIx64 "; %zu wrong words, the last at offset %zu",
                 content->ptr, content->size, fault.offset, fault.expected, fault.found,
                 fault.count, fault.last);
}

static void map(struct foreign *foreign, struct content *content, struct rng *rng) {
    size_t size = whole_pages(rng_size(rng, 1, foreign->most));
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(ptr != MAP_FAILED, "no foreign mapping of %zu bytes", size);
    CHECK(content_first_nonzero(ptr, size) == size, "a new mapping %p of %zu bytes is not zero",
          ptr, size);
    foreign->next_number += 100; /* filled wholly, see content.h */
    *content = content_fill(ptr, size, foreign->next_number);
}

static void unmap(struct content *content, size_t kept) {
    CHECK(munmap((char *)content->ptr + kept, content->size - kept) == 0, "munmap failed");
    content->size = kept;
    if (kept == 0) content->ptr = NULL;
}

void foreign_step(struct foreign *foreign, struct rng *rng, struct tally *tally) {
    struct content *content = &foreign->contents[rng_below(rng, FOREIGN_COUNT)];
    if (content->ptr == NULL) {
        map(foreign, content, rng);
        tally_event(tally, MAPPED);
    } else {
        size_t half = whole_pages(content->size / 2);
        check(content);
        unmap(content, rng_below(rng, 3) == 0 && half < content->size ? half : 0);
        tally_event(tally, UNMAPPED);
    }
}

void foreign_check(const struct foreign *foreign) {
    for (size_t i = 0; i < FOREIGN_COUNT; i++)
        if (foreign->contents[i].ptr != NULL) check(&foreign->contents[i]);
}

void foreign_end(struct foreign *foreign, struct tally *tally) {
    foreign_check(foreign);
    for (size_t i = 0; i < FOREIGN_COUNT; i++)
        if (foreign->contents[i].ptr != NULL) {
            unmap(&foreign->contents[i], 0);
            tally_event(tally, UNMAPPED);
        }
}
