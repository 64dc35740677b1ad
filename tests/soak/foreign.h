/* foreign.h - mappings that another library of the process could have made: the allocator must
 * neither write to them nor unmap them. */
#pragma once

#include "content.h"
#include "rng.h"
#include "tally.h"

enum { FOREIGN_COUNT = 6 };

struct foreign {
    struct content
        contents[FOREIGN_COUNT]; /* ptr NULL: none; all bytes of the mapping are filled */
    size_t most;                 /* bytes of one */
    uint64_t next_number;
};

/* Makes a mapping, or checks all bytes of one and unmaps it, wholly or its second half. */
void foreign_step(struct foreign *foreign, struct rng *rng, struct tally *tally);

/* Checks all bytes of all mappings. */
void foreign_check(const struct foreign *foreign);

/* Checks and unmaps all. */
void foreign_end(struct foreign *foreign, struct tally *tally);
