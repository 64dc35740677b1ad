#!/bin/sh
# run.sh PRESETS PYTHON [word of ctest...]: all tests of the built presets, and those of the lab. Those that are
# marked long are left out where ctest is told so (-LE 'long|repeat'). What failed is said at the end once more.
#
# The first preset has by far the most tests. In the short dose the lab's run beside it, and then the other presets', so
# that no CPU waits for the last test of each, nor for one that ctest runs alone. Long doses may need the memory for
# themselves: of these only the lab's are beside the others.
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac
presets=$1 python=$2
shift 2

# What pytest takes for itself otherwise are all CPUs of the machine.
PYTEST_XDIST_AUTO_NUM_WORKERS=${PYTEST_XDIST_AUTO_NUM_WORKERS:-$(scripts/jobs.sh)}
export PYTEST_XDIST_AUTO_NUM_WORKERS

log=build/test-logs
rm -rf $log
mkdir -p $log
words=$*
# shellcheck disable=SC2086 # a list
set -- $presets
case " $words " in
*" -LE long"*) dose='not long' first=$1 && shift ;;
*) dose='' first=$presets && set -- ;;
esac

# Leaves a file that says so when one fails.
note() {
    name=$1
    shift
    "$@" >"$log/$name" 2>&1 &
    child=$!
    wait $child || touch "$log/$name.failed"
}

beside() {
    trap 'kill $child; exit 1' TERM
    note lab "$python" -m pytest -q -m "$dose" bench
    # shellcheck disable=SC2086 # a list
    for preset in "$@"; do note "$preset" ctest --preset "$preset" $words; done
}

beside "$@" &
beside_pid=$!
trap 'kill $beside_pid 2>/dev/null || true' EXIT
trap 'exit 1' HUP INT TERM
failed=''

for preset in $first; do
    echo "== tests: $preset"
    # shellcheck disable=SC2086 # a list
    ctest --preset "$preset" $words || failed="$failed $preset"
done
wait $beside_pid || true
for name in "$@" lab; do
    echo "== tests: $name"
    cat "$log/$name"
    [ ! -e "$log/$name.failed" ] || failed="$failed $name"
done
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
