/* tag.h: the word by which free sees that a mid block may be free already.
 *
 * free writes the tag into the first word of a mid block. If a block has the tag when it is freed, either it was
 * freed before, or it was in use before, and the program has left the first word alone, or copied the tag there
 * with memory that it had not written. So the tag proves nothing. It makes free look where free blocks are
 * (thread/known_free.h), and a block that is not found there is freed.
 *
 * A mid block may be used in part, so that the page of its first word is not there. malloc does not touch it, and
 * free does not write where it reads 0: then the block has no tag, and free only compares it with the two newest of
 * its stack. A write to the freed block takes the tag away, as does a purge of its page; then a second free is
 * found when both come to the bitmap.
 *
 * The tag is the address of the map: the same for all threads, no address of a block, never 0. It is no secret,
 * since nothing depends on that.
 *
 * Tiny blocks have no tag: free would touch cold blocks, and malloc fresh ones. Blocks above 64 KiB need none: their
 * heaps know at each free whether the block is in use. docs/decisions/0076-tags-in-free-blocks.md has the counts. */
#pragma once

#include "base/base.h"
#include "region/region.h"

/* Tags a block of a mid class; false when it has the tag already. */
HAK_FAST_PATH bool hak_tag(void *block) {
    typedef uintptr_t __attribute__((may_alias)) first_word_t;
    const uintptr_t tag = (uintptr_t)hak_map.entries;
    first_word_t *word = block;
    if (!HAKMEM_CHECKS || *word == 0) return true;
    if (HAK_UNLIKELY(*word == tag)) return false;
    *word = tag;
    return true;
}
