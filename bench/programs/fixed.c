/*
 * fixed - libfixed.so: time and randomness that are the same in every run, for counted runs.
 *
 * Programs seed their hash tables from the clock, from the kernel's random bytes and from addresses,
 * which allocators choose at random, and so cost a little more or less each time. Preloaded beside
 * an allocator, this answers time(), getrandom(), getentropy(), /dev/urandom and the AT_RANDOM of
 * getauxval() with constants. Clocks that programs wait by stay as they are.
 */
#include <elf.h>
#include <errno.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define EPOCH 1700000000 /* a second in 2023 */
#define BYTE 0x5a

time_t time(time_t *out) {
    if (out != NULL) *out = EPOCH;
    return EPOCH;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
    (void)flags;
    memset(buffer, BYTE, length);
    return (ssize_t)length;
}

int getentropy(void *buffer, size_t length) {
    memset(buffer, BYTE, length);
    return 0;
}

/* Where the kernel put the number of arguments, then they, the environment and the vector. glibc
 * knows it before anything else runs; other C libraries know their environment by then. */
extern void *__libc_stack_end __attribute__((weak));

static const Elf64_auxv_t *vector(void) {
    char **word = environ;

    if (&__libc_stack_end != NULL) {
        word = (char **)__libc_stack_end;
        word += 2 + *(long *)(void *)word;
    }
    while (*word != NULL) word++;
    return (const Elf64_auxv_t *)(const void *)(word + 1);
}

unsigned long getauxval(unsigned long type) {
    static _Alignas(16) unsigned char random[16];

    if (type == AT_RANDOM) return (unsigned long)memset(random, BYTE, sizeof random);
    for (const Elf64_auxv_t *entry = vector(); entry->a_type != AT_NULL; entry++)
        if (entry->a_type == type) return entry->a_un.a_val;
    errno = ENOENT;
    return 0;
}

/* The file to open for `path`: zeros for the devices of random bytes. */
static const char *fixed_path(const char *path) {
    int random = strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0;

    return random ? "/dev/zero" : path;
}

static int open_by(const char *name, const char *path, int flags, mode_t mode) {
    int (*next)(const char *, int, ...);

    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(fixed_path(path), flags, mode);
}

#define OPEN(name)                                \
    int name(const char *path, int flags, ...) {  \
        va_list rest;                             \
        va_start(rest, flags);                    \
        mode_t mode = (mode_t)va_arg(rest, int);  \
        va_end(rest);                             \
        return open_by(#name, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

static FILE *fopen_by(const char *name, const char *path, const char *mode) {
    FILE *(*next)(const char *, const char *);

    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(fixed_path(path), mode);
}

FILE *fopen(const char *path, const char *mode) { return fopen_by("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fopen_by("fopen64", path, mode); }
