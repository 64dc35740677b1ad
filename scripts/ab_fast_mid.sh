#!/bin/sh
# A/B of the mid tier, PROBES x RETURNS: PROBES="1 2" scripts/ab_fast_mid.sh
exec "$(dirname "$(readlink -f "$0")")/lab" ab_fast_mid "$@"
