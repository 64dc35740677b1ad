/* own_word.c: a page with a word that the kernel zeroes in the child of a fork. */
#include "os/own_word.h"

#include <sys/mman.h>

#include "os/os.h"

enum { WIPE_ON_FORK = 18 }; /* of madvise(2); a libc may be older than the kernel */

HAK_BEHIND hak_own_word_t *hak_os_own_word(void) {
    HAK_KEEP_ERRNO();
    const size_t size = hak_os_page_size();
    void *page = hak_os_map(size, size);
    if (!page) return NULL;
    hak_add_relaxed(&hak_os_stats.madvise, 1);
    if (madvise(page, size, WIPE_ON_FORK) == 0) return page;
    hak_os_unmap(page, size);
    return NULL;
}
