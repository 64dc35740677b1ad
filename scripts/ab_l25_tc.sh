#!/bin/sh
# A/B of the large tier, RUN_FACTORS x SPILLS: SPILLS="16 32" scripts/ab_l25_tc.sh
exec "$(dirname "$(readlink -f "$0")")/lab" ab_l25_tc "$@"
