#!/bin/sh
# HAKMEM beside other allocators over the lab's rows: RUNTIME=1 scripts/run_bench_suite.sh
exec "$(dirname "$(readlink -f "$0")")/lab" run_bench_suite "$@"
