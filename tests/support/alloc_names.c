/* alloc_names.c - proof that HAKMEM serves this process, and the late-bound names. */
#define _GNU_SOURCE
#include "alloc_names.h"

#include <dlfcn.h>

#include "check.h"

#if defined(TEST_PREFIXED)

void require_hakmem(void) {
    CHECK(hakmem_version() > 0, "hakmem_version() is %d", hakmem_version());
}

#else

#if defined(TEST_LINKED)
int hakmem_version(void);
static void *version_address(void) { return (void *)hakmem_version; }
#else
static void *version_address(void) { return dlsym(RTLD_DEFAULT, "hakmem_version"); }
#endif

void require_hakmem(void) {
    void *ours = version_address();
    void *used = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info ours_info;
    Dl_info used_info;
    CHECK(used != NULL && dladdr(used, &used_info) != 0, "malloc is not a dynamic symbol");
    CHECK(ours != NULL, "HAKMEM is not active: malloc comes from %s", used_info.dli_fname);
    CHECK(dladdr(ours, &ours_info) != 0, "no object holds hakmem_version");
    CHECK(ours_info.dli_fbase == used_info.dli_fbase, "HAKMEM is in %s, but malloc comes from %s",
          ours_info.dli_fname, used_info.dli_fname);
}

#if defined(TEST_PRELOAD)

static void *late_symbol(const char *name) {
    void *address = dlsym(RTLD_DEFAULT, name);
    CHECK(address != NULL, "no library of this process provides %s", name);
    return address;
}

void late_free_sized(void *ptr, size_t size) {
    static void (*target)(void *, size_t);
    if (target == NULL) target = (void (*)(void *, size_t))late_symbol("free_sized");
    target(ptr, size);
}

void late_free_aligned_sized(void *ptr, size_t alignment, size_t size) {
    static void (*target)(void *, size_t, size_t);
    if (target == NULL)
        target = (void (*)(void *, size_t, size_t))late_symbol("free_aligned_sized");
    target(ptr, alignment, size);
}

void late_cfree(void *ptr) {
    static void (*target)(void *);
    if (target == NULL) target = (void (*)(void *))late_symbol("cfree");
    target(ptr);
}

#endif
#endif
