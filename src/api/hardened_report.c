/* hardened_report.c: prints the diagnoses of the hardened path. */
#include "api/hardened_report.h"

#include "api/block.h"
#include "api/block_record.h"
#include "api/block_report.h"
#include "error/error.h"
#include "hardened/empty.h"
#include "os/loaded.h"

static const char *const allocators[] = {"malloc", "operator new", "operator new[]"};

/* True if the two functions may be mixed. Only "yes" is kept: the library may be loaded later. */
static HAK_SLOW_PATH bool may_mix(const char *function, hak_origin_t origin) {
    /* Calls of operators in these libraries go to the program's, so they do not count. */
    static const char runtimes[] = "libstdc++.so\0libc++\0";
    static _Atomic bool may;
    const hak_origin_t by = hak_hardened_origin_of(function);
    if (origin == by || (origin != HAK_ORIGIN_MALLOC && by != HAK_ORIGIN_MALLOC)) return false;
    if (!hak_load_relaxed(&may) && hak_os_others_define("_Znwm", runtimes))
        hak_store_relaxed(&may, true);
    return hak_load_relaxed(&may);
}

bool hak_hardened_matches_mixed(const char *function, size_t size, hak_origin_t origin,
                                size_t said) {
    /* For an object of 0 bytes the C++ runtime requests 1 byte. */
    const bool is_size = said == (size_t)HAK_ANY_SIZE || hak_max(said, 1) == hak_max(size, 1);
    return is_size && may_mix(function, origin);
}

void hak_hardened_report_mismatch(const char *function, const void *block, size_t size,
                                  hak_origin_t origin) {
    hak_error_report(function, "wrong function: %p is a block of %zu %s from %s", block,
                     HAK_ERROR_BYTES(size), allocators[origin]);
}

static HAK_SLOW_PATH void report_size(const char *function, const void *block, size_t size,
                                      size_t said) {
    hak_error_report(function, "wrong size: %p is freed as a block of %zu %s, but has %zu", block,
                     HAK_ERROR_BYTES(said), size);
}

void hak_hardened_report_overflow(const char *function, const void *block, size_t size) {
    hak_error_report(function,
                     "overflow: %p is a block of %zu %s, and what lies behind it was written to",
                     block, HAK_ERROR_BYTES(size));
}

void hak_hardened_report_pointer(const char *function, const void *pointer) {
    if (hak_empty_has(pointer)) {
        hak_error_report(function, "double free: %p is no block of 0 bytes in use", pointer);
        return;
    }
    hak_block_t block = hak_block_of(pointer);
    hak_block_report(function, pointer, &block);
}

void hak_hardened_report_wrong(const char *function, const void *block, size_t size,
                               hak_origin_t origin, size_t said) {
    if (origin != hak_hardened_origin_of(function) && !may_mix(function, origin))
        hak_hardened_report_mismatch(function, block, size, origin);
    else
        report_size(function, block, size, said);
}
