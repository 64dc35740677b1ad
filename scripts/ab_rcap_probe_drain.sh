#!/bin/sh
# A/B of the mid tier, RCAPS x PROBES x DRAINS x LOMAX: scripts/ab_rcap_probe_drain.sh -t 4
exec "$(dirname "$(readlink -f "$0")")/lab" ab_rcap_probe_drain "$@"
