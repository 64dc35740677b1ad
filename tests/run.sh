#!/bin/sh
# run.sh PRESETS PYTHON [word of ctest...]: all tests of the built presets, and those of the lab, which
# run beside them. Those that are marked long are left out where ctest is told so (-LE 'long|repeat'). What
# failed is said at the end once more.
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac
presets=$1 python=$2
shift 2

lab=build/lab-test.log
case " $* " in
*" -LE long"*) dose='not long' ;;
*) dose='' ;;
esac
"$python" -m pytest -q -m "$dose" bench >"$lab" 2>&1 &
lab_pid=$!
trap 'kill $lab_pid 2>/dev/null || true' EXIT
failed=''

for preset in $presets; do
    echo "== tests: $preset"
    ctest --preset "$preset" "$@" || failed="$failed $preset"
done

echo "== tests: the benchmark engine"
wait $lab_pid || failed="$failed lab"
cat "$lab"
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
