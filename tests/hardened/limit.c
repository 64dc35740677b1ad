/* limit.c - under HAKMEM_LIMIT=64M a program gets nearly all of that in blocks: what is only a guard counts as no memory. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"

/* A class has 1,024 bytes for a block and its canary. */
enum { SIZE = 1000, LIMIT_KIB = 64 * 1024, LEAST_KIB = LIMIT_KIB / 100 * 93 };

int main(void) {
    size_t (*verify)(void) = (size_t(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "hakmem_verify");
    size_t bytes = 0;
    require_hakmem();
    for (char *block; (block = API(malloc)(SIZE)) != NULL; bytes += SIZE) memset(block, 1, SIZE);
    CHECK(bytes / 1024 >= LEAST_KIB, "no memory after %zu KiB of %u", bytes / 1024,
          (unsigned)LIMIT_KIB);
    CHECK(verify && verify() == 0, "a violation");
    return 0;
}
