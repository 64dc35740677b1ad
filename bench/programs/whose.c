/*
 * whose - names the file that each allocation function of this process comes from.
 *
 * One line "function path" each; shows whether a preloaded allocator is active.
 */
#include "bench.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
    static const char *const names[] = {"malloc",         "free",          "calloc",  "realloc",
                                        "posix_memalign", "aligned_alloc", "memalign"};
    void *block = malloc(100);

    bench_start();
    bench_arguments(NULL, 0, argc, argv);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Dl_info info;
        void *address = dlsym(RTLD_DEFAULT, names[i]);

        if (address == NULL || dladdr(address, &info) == 0)
            bench_fail(1, "cannot find %s", names[i]);
        printf("%s %s\n", names[i], info.dli_fname);
    }
    bench_flush();
    free(block);
    return 0;
}
