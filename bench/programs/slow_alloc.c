/*
 * slow_alloc - glibc's allocator with a delay of about 20 ns in each call.
 *
 * Built as libslow.so. A comparison that does not report it slower is not to be believed:
 * the lab's own tests run it.
 */
#include <stddef.h>

#define DELAY_STEPS 64 /* of a cycle each: 20 ns at 3.2 GHz */

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static void delay(void) {
    for (unsigned step = 0; step < DELAY_STEPS; step++) __asm__ volatile("" : "+r"(step));
}

void *malloc(size_t size) {
    delay();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    delay();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    delay();
    return __libc_realloc(block, size);
}

void free(void *block) {
    delay();
    __libc_free(block);
}
