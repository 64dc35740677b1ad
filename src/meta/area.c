/* area.c: an area grows by a reservation behind the reserved part; then a part of that becomes accessible. */
#include "meta/area.h"

#include "commit/commit.h"

enum { QUARTERS_FROM = 1024 * 1024 };

hak_os_answer_t hak_area_place(hak_area_t *area, char *start, size_t size, const char *name) {
    size_t page = hak_os_page_size(), first = 3 * page; /* a guard, the first records, a guard */
    hak_os_answer_t answer = hak_os_reserve_at(start, first);
    *area = (hak_area_t){.base = answer == HAK_OS_MAPPED ? start + page : NULL,
                         .reserved = first - page,
                         .limit = hak_area_span(size) - page,
                         .name = name};
    if (answer == HAK_OS_MAPPED) hak_os_name(start, first, name);
    return answer;
}

void hak_area_remove(hak_area_t *area) {
    if (!area->base) return;
    hak_commit_release(hak_area_charged(area));
    size_t page = hak_os_page_size();
    hak_os_unmap(area->base - page, page + area->reserved);
    *area = (hak_area_t){.base = NULL}; /* nothing of it is charged: it may not be placed again */
}

/* Reserves more addresses, so that the area has `size` bytes of them in all. */
static hak_os_answer_t reserve(hak_area_t *area, size_t size) {
    if (size > area->limit) return HAK_OS_TAKEN;
    char *end = area->base + area->reserved;
    hak_os_answer_t answer = hak_os_reserve_at(end, size - area->reserved);
    if (answer != HAK_OS_MAPPED) return answer;
    hak_os_name(end, size - area->reserved, area->name);
    area->reserved = size;
    return HAK_OS_MAPPED;
}

/* From 1 MiB on the reserved part grows by quarters instead of doubling: reserved addresses count
 * against a limit on the address space. */
static size_t next_length(const hak_area_t *area) {
    size_t length = area->reserved, page = hak_os_page_size();
    return length < QUARTERS_FROM ? 2 * length : hak_align_up(length + length / 4, page);
}

static HAK_COMMON hak_os_answer_t commit(hak_area_t *area, size_t from, size_t end) {
    size_t need = end + hak_os_page_size(), more = end - area->committed;
    size_t uncharged = from > area->committed ? from - area->committed : 0;
    hak_os_answer_t answer = HAK_OS_MAPPED;
    if (need > area->reserved) answer = reserve(area, hak_max(need, next_length(area)));
    if (answer != HAK_OS_MAPPED) answer = reserve(area, need);
    if (answer != HAK_OS_MAPPED) return answer;
    if (!hak_commit_charge(more - uncharged)) return HAK_OS_REFUSED;
    if (!hak_os_commit(area->base + area->committed, more)) {
        hak_commit_release(more - uncharged);
        return HAK_OS_REFUSED;
    }
    area->committed = end;
    area->uncharged += uncharged;
    return HAK_OS_MAPPED;
}

HAK_COMMON hak_os_answer_t hak_area_commit(hak_area_t *area, size_t from, size_t want) {
    if (HAK_LIKELY(want <= area->committed)) return HAK_OS_MAPPED;
    size_t page = hak_os_page_size(), exact = hak_align_up(want, page);
    from &= ~(page - 1);
    size_t end = hak_max(exact, hak_min(2 * area->committed, HAK_AREA_STEP));
    if (end > HAK_AREA_STEP) end = hak_align_up(end, HAK_AREA_STEP);
    hak_os_answer_t answer = commit(area, from, end);
    return answer == HAK_OS_MAPPED || exact == end ? answer : commit(area, from, exact);
}
