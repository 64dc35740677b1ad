/* alloc_names.h - one spelling, API(malloc), for the function under test.
 *
 * The same test source is built several ways, and the build says what API(name) means:
 *   TEST_PRELOAD   the program knows only the system's libc; libhakmem comes by LD_PRELOAD
 *   TEST_LINKED    the program is linked with libhakmem.so or libhakmem.a
 *   TEST_PREFIXED  the program is linked with libhakmem and uses the hakmem_* twins
 */
#pragma once

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(TEST_PREFIXED)

#include "hakmem.h"
#define API(name) hakmem_##name
typedef struct hakmem_mallinfo2 api_mallinfo2;

#else

#define API(name) name
typedef struct mallinfo2 api_mallinfo2;

#if defined(TEST_PRELOAD)
/* glibc lacks these three, so a preloaded test can only find them at run time. */
#define free_sized late_free_sized
#define free_aligned_sized late_free_aligned_sized
#define cfree late_cfree
#endif

void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);
void cfree(void *ptr);

#endif

/* Fails the test unless malloc of this process is HAKMEM's. */
void require_hakmem(void);
