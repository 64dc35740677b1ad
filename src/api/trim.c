/* trim.c: malloc_trim: gives all free memory back now. */
#include "api/export.h"
#include "thread/purge_trigger.h"

int hakmem_malloc_trim(size_t pad) {
    (void)pad; /* there is no heap end to pad; threads keep free memory in their caches */
    return hak_purge_all() > 0;
}
HAK_TWIN(int, malloc_trim, (size_t pad))
