/*
 * fake_hakmem - glibc's malloc under the name of libhakmem, for tests of the scripts.
 *
 * It knows the options in KNOWN (" A B " with blanks around each) and says of others what
 * libhakmem says. -DANSWERS adds hakmem_option_get(), -DCRASHES ends the program at a large block.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

#ifndef KNOWN
#define KNOWN " "
#endif
#define PREFIX "HAKMEM_"

static int known(const char *name, size_t length) {
    char word[80];

    snprintf(word, sizeof word, " %.*s ", (int)length, name);
    return strstr(KNOWN, word) != NULL;
}

__attribute__((constructor)) static void warn(void) {
    for (char **pair = environ; *pair != NULL; pair++) {
        const char *name = *pair + strlen(PREFIX);

        if (strncmp(*pair, PREFIX, strlen(PREFIX)) != 0 || strncmp(name, "BENCH_", 6) == 0)
            continue;
        if (!known(name, strcspn(name, "=")))
            fprintf(stderr, "hakmem: unknown option HAKMEM_%.*s is ignored\n",
                    (int)strcspn(name, "="), name);
    }
}

#ifdef ANSWERS
__attribute__((visibility("default"))) int hakmem_option_get(const char *name, char *value,
                                                             size_t size) {
    snprintf(value, size, "1");
    if (strcmp(name, "DEBUG_ONLY") == 0) return ENOTSUP;
    return known(name, strlen(name)) ? 0 : ENOENT;
}
#endif

void *malloc(size_t size) {
#ifdef CRASHES
    if (size > CRASHES) abort();
#endif
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
