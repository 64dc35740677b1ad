/* check.c: the line of an invariant that does not hold. */
#include "error/check.h"

#include <stdlib.h>

#include "error/log.h"

void hak_check_failed(hak_check_t *check, const char *what, const void *object,
                      const char *equation, const uint64_t *sides) {
    if (check->violations++ >= HAK_CHECK_LINES) return;
    if (sides)
        hak_log("%s %p: %s: %llu, not %llu", what, object, equation, (unsigned long long)sides[0],
                (unsigned long long)sides[1]);
    else
        hak_log("%s %p: violated: %s", what, object, equation);
}

void hak_check_stop(const hak_check_t *check) {
    if (check->violations) abort();
}
