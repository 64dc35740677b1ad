#!/bin/sh
# run.sh SECONDS [TARGET...]: fuzzes each target in turn, all of them in so many seconds together.
# run.sh keep: takes over what was found into the corpus of the tree: at most KEPT files a target.
#
# `make fuzz SECONDS=3600` builds the targets and calls it. What it learns lies in build/fuzz/corpus, an
# input that breaks something in build/fuzz/found: mend it, and put it into tests/fuzz/corpus.
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac
KEPT=40
cd "$(dirname "$0")/../.."
ops='ops settings json page trace'
what=$1
shift
targets=${*:-$ops}
# Values of json are never freed; the mappings of a trace are the target's.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 TEST_ABORT=1

if [ "$what" = keep ]; then
    for target in $targets; do
        new=build/fuzz/merged/$target
        rm -rf "$new" && mkdir -p "$new"
        "build/fuzz/tests/fuzz_$target" -merge=1 -max_len=1200 "$new" "build/fuzz/corpus/$target" \
            "tests/fuzz/corpus/$target" >build/fuzz/merge.log 2>&1
        count=$(find "$new" -type f | wc -l)
        # Of all sizes some: a long input does what no short one does.
        find "$new" -type f -printf '%s %p\n' | sort -n |
            awk -v step=$(((count + KEPT - 1) / KEPT)) 'NR % step == 0 { print $2 }' |
            while read -r file; do cp "$file" "tests/fuzz/corpus/$target/$(basename "$file" | cut -c1-12)"; done
        echo "$target: $count inputs, $(find "tests/fuzz/corpus/$target" -type f | wc -l) in the tree"
    done
    exit
fi

# Sets `seconds_of_cpu`: of all children so far. A substitution would have none.
count_cpu() {
    times >build/fuzz/times
    seconds_of_cpu=$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 * 60 + $2 + $3 * 60 + $4) }' build/fuzz/times)
}

found=0
for target in $targets; do
    mkdir -p "build/fuzz/corpus/$target" build/fuzz/found
    seconds=$((what / $(echo "$targets" | wc -w)))
    count_cpu
    before=$seconds_of_cpu
    log=build/fuzz/$target.log
    if ! "build/fuzz/tests/fuzz_$target" -max_total_time=$seconds -max_len=4000 -timeout=600 -rss_limit_mb=4096 \
        -artifact_prefix=build/fuzz/found/$target- "build/fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
        >"$log" 2>&1; then
        found=1
        echo "FAIL: fuzzing $target: $log"
        grep -E 'FAIL|ERROR|runtime error|Test unit written' "$log" | head -5
    fi
    count_cpu
    echo "$target: $(grep -E '^Done|DONE' "$log" | tail -1), $((seconds_of_cpu - before)) s of a CPU"
done
exit $found
