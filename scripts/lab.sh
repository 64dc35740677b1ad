#!/bin/sh
# lab.sh COMMAND [options]: makes sure that the build and the lab's Python are there, then runs the
# lab. The other scripts are this with a name. HAKMEM_BUILD names another build folder; then
# nothing is built.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
command -v make >/dev/null || { echo "${0##*/}: make is needed" >&2; exit 1; }

needs=all
[ -z "${HAKMEM_BUILD:-}" ] || needs=''
for word in "$@"; do
    case $word in -h | --help) needs='' ;; esac
done
[ "${1:-}" != kill_bench ] || needs=''
# shellcheck disable=SC2086 # a list of words
said=$(make -s --no-print-directory -C "$root" $needs build/venv/.ready 2>&1) || {
    printf '%s\n' "$said" >&2
    echo "${0##*/}: the build failed, see above" >&2
    exit 1
}

# kill_bench.sh finds everything of this checkout by this mark.
HAKMEM_BENCH_SUITE=${HAKMEM_BENCH_SUITE:-$root}
export HAKMEM_BENCH_SUITE
exec "$root/build/venv/bin/python" -m hakmem_lab "$@"
