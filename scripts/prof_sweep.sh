#!/bin/sh
# Larson in bands of block sizes x threads: scripts/prof_sweep.sh -d 2 -t 1,4 -s 8
exec "$(dirname "$(readlink -f "$0")")/lab" prof_sweep "$@"
