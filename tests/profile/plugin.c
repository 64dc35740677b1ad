/* plugin.c - a library that allocates while the loader loads and unloads it. */
#include <stdlib.h>

static void *block;

__attribute__((constructor)) static void begin(void) { block = malloc(5000); }

__attribute__((destructor)) static void end(void) { free(block); }
