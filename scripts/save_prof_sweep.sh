#!/bin/sh
# prof_sweep with its notes and raw logs kept: scripts/save_prof_sweep.sh -d 2 -t 1,4 -s 8
exec "$(dirname "$(readlink -f "$0")")/lab" save_prof_sweep "$@"
