/* verify.c: the invariant of an area. */
#include "meta/verify.h"

void hak_area_check(hak_check_t *check, const hak_area_t *area) {
    size_t sizes = area->committed | area->reserved | area->limit | area->uncharged,
           page = hak_os_page_size();
    hak_check_that(check, "area", area, "committed + a page <= reserved",
                   area->committed + page <= area->reserved);
    hak_check_that(check, "area", area, "reserved <= limit", area->reserved <= area->limit);
    hak_check_that(check, "area", area, "uncharged <= committed",
                   area->uncharged <= area->committed);
    hak_check_that(check, "area", area, "all are multiples of a page", sizes % page == 0);
}
