/* empty - a program that allocates nothing: its peak RSS is the floor of all others. */
#include "bench.h"

int main(int argc, char **argv) {
    bench_arguments(NULL, 0, argc, argv);
    bench_print_rss();
    return 0;
}
