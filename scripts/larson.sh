#!/bin/sh
# Larson by the name of a load: scripts/larson.sh mixed -t 1,4
exec "$(dirname "$(readlink -f "$0")")/lab" larson "$@"
