/* fully_static.c - libhakmem.a in a program without any shared library, against libc.a. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

int hakmem_version(void);
size_t hakmem_malloc_usable_size(const void *ptr);

static void *work(void *argument) {
    char *mine[200];
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < 200; i++) {
            mine[i] = malloc(i * 37 + 1);
            mine[i][0] = (char)i;
        }
        for (size_t i = 0; i < 200; i++) free(mine[i]);
    }
    return argument;
}

int main(void) {
    pthread_t threads[4];
    watchdog(60, "a fully static program");
    CHECK(hakmem_version() > 0, "no version");
    char *line = NULL;
    size_t room = 0;
    FILE *input = fopen("/proc/self/status", "r");
    CHECK(input != NULL && getline(&line, &room, input) > 0, "libc's own use of malloc fails");
    fclose(input);
    /* glibc's malloc would not be known to HAKMEM, which would say so and abort. */
    CHECK(hakmem_malloc_usable_size(line) >= room, "getline's buffer is not HAKMEM's");
    free(line);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return 0;
}
