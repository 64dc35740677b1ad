/* prog.c - a consumer in C: says whether its malloc is the library that it was built against. */
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    uint64_t before = 0, after = 0;
    if (hakmem_stats_get("total.live_bytes", &before) != 0) return 2;
    void *volatile block = malloc(100000);
    if (hakmem_stats_get("total.live_bytes", &after) != 0) return 2;
    printf("%s %d\n", after >= before + 100000 ? "served by" : "not served by", hakmem_version());
    free(block);
    return hakmem_version() == HAKMEM_VERSION ? 0 : 3;
}
