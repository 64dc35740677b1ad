#!/bin/sh
# Ends what this checkout's benchmarks left running: scripts/kill_bench.sh
exec "$(dirname "$(readlink -f "$0")")/lab" kill_bench "$@"
