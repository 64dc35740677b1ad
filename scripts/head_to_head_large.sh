#!/bin/sh
# System, mimalloc and HAKMEM's large profiles: scripts/head_to_head_large.sh -t 1,4
exec "$(dirname "$(readlink -f "$0")")/lab" head_to_head_large "$@"
