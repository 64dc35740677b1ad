#!/bin/sh
# Profiles HAKMEM beside the system allocator: scripts/perf_report.sh mixed
exec "$(dirname "$(readlink -f "$0")")/lab" perf_report "$@"
