#!/bin/sh
# Larson at will: scripts/run_larson.sh -d 10 -p burst -m 8 -M 64 -t 1,4
exec "$(dirname "$(readlink -f "$0")")/lab" run_larson "$@"
