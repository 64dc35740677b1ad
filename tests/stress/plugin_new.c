/* plugin_new.c - a C program loads a C++ library with RTLD_LOCAL: operator new still throws there.
 *
 *     plugin_new LIBRARY
 *
 * The library is plugin.cpp; the C++ runtime comes with it and stays out of the global scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

static void call_plugin(const void *path) {
    proc_no_core_files();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "dlopen: %s", dlerror());
    CHECK(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv") == NULL, "the C++ runtime is global");
    int (*catch_bad_alloc)(void) = (int (*)(void))dlsym(handle, "catch_bad_alloc");
    CHECK(catch_bad_alloc != NULL, "the library has no catch_bad_alloc");
    int got = catch_bad_alloc();
    CHECK(got == 42, "std::bad_alloc was not caught: %d", got);
}

int main(int argc, char **argv) {
    CHECK(argc > 1, "usage: plugin_new LIBRARY");
    watchdog(50, "operator new in a plug-in");
    require_hakmem();
    child_must_succeed(call_plugin, argv[1], 20, "operator new in a plug-in");
    return 0;
}
