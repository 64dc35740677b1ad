#!/bin/sh
# A/B of the mid tier, CAPS x MIN_BUNDLES x threads: CAPS="8 16" scripts/ab_sweep_mid.sh
exec "$(dirname "$(readlink -f "$0")")/lab" ab_sweep_mid "$@"
