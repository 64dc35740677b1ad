#!/bin/sh
# HAKMEM's large profiles against its defaults: scripts/bench_large_profiles.sh
exec "$(dirname "$(readlink -f "$0")")/lab" bench_large_profiles "$@"
