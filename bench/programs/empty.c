/* empty - a program that allocates nothing: its peak RSS is the floor of all others. */
#include "bench.h"

int main(void) {
    bench_print_rss();
    return 0;
}
