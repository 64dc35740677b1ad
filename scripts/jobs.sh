#!/bin/sh
# jobs.sh: prints how many jobs may run at once: one for each CPU, and at most one for each GiB of memory, that this
# process may use. What its control groups allow counts, which nproc does not know: a container on a machine with 64
# CPUs may have the time of four, and 8 GiB.
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac
groups=/sys/fs/cgroup
jobs=$(nproc 2>/dev/null || echo 2)

# No more than that; what is no number says nothing.
at_most() {
    case $1 in '' | *[!0-9]*) return 0 ;; esac
    [ "$1" -ge "$jobs" ] || jobs=$1
}

# Quota and period of a group's time, in microseconds; without a quota there is "max" or -1.
time_of() { case $1$2 in '' | *[!0-9]*) ;; *) at_most $((($1 + $2 - 1) / $2)) ;; esac }
bytes_of() { case $1 in '' | *[!0-9]*) ;; *) [ ${#1} -gt 15 ] || at_most $(($1 >> 30)) ;; esac }
value_of() { cat "$1" 2>/dev/null || true; }

# Each group of the process, and those above it, as they are seen from here: in a container its own is the root.
while IFS=: read -r _ kind path; do
    while :; do
        case $kind in
        '')
            # shellcheck disable=SC2046 # two words
            set -- $(value_of "$groups$path/cpu.max")
            time_of "${1:-}" "${2:-}"
            bytes_of "$(value_of "$groups$path/memory.max")"
            ;;
        *cpu*) time_of "$(value_of "$groups/$kind$path/cpu.cfs_quota_us")" "$(value_of "$groups/$kind$path/cpu.cfs_period_us")" ;;
        memory) bytes_of "$(value_of "$groups/$kind$path/memory.limit_in_bytes")" ;;
        esac
        case $path in '' | /) break ;; esac
        path=${path%/*}
    done
done <<END
$(value_of /proc/self/cgroup)
END
at_most "$(awk '/^MemTotal:/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo 2>/dev/null || true)"
[ "$jobs" -ge 1 ] || jobs=1
echo "$jobs"
