# bash completion for hakmem(1). Made by scripts/options_doc.py from the tables of options and
# profiles.

_hakmem_values() {
    case ${1#HAKMEM_} in
    PROFILE) echo 'none MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED C6_HEAVY LOWMEM SERVER DEBUG LARGE_P1 LARGE_P2_TC HARDENED' ;;
    TINY_PROFILE) echo 'full larson_guard' ;;
    TINY_POLICY_PROFILE) echo 'legacy c5_7_only tinyplus_all auto' ;;
    LEARN) echo 'off observe on' ;;
    ON_ERROR) echo 'abort report' ;;
    STATS) echo 'off text json' ;;
    TIMING) echo '0 1' ;;
    LIVE) echo '0 1' ;;
    PROF) echo '0 1' ;;
    LEAK) echo '0 1' ;;
    TINY_STATS_DUMP) echo '0 1' ;;
    TINY_POLICY_LOG) echo '0 1' ;;
    WARM_POOL_STATS) echo '0 1' ;;
    TINY_WARM_LOG) echo '0 1' ;;
    TINY_PAGEBOX_LOG) echo '0 1' ;;
    POOL_TLS_RING) echo '0 1' ;;
    MID_DYN1) echo '0 auto' ;;
    WRAP_L2) echo '0 1' ;;
    WRAP_L25) echo '0 1' ;;
    SHARD_MIX) echo '0 1' ;;
    L25_PREF) echo 'local remote' ;;
    DISABLE_BATCH) echo '0 1' ;;
    HARDENED) echo '0 1' ;;
    RANDOM_PLACEMENT) echo '0 1' ;;
    ZERO_ON_FREE) echo '0 1' ;;
    CHECK_FREED) echo '0 1' ;;
    CANARY) echo '0 1' ;;
    CHECK_MISMATCH) echo '0 1' ;;
    GUARD_LARGE) echo '0 1' ;;
    GUARD_EMPTY) echo '0 1' ;;
    LIMIT_SOFT) echo '0 auto' ;;
    SS_SIZE) echo '512K 1M 2M' ;;
    TINY_SS_PARTIAL) echo '0 1' ;;
    TINY_USE_SUPERSLAB) echo '0 1' ;;
    esac
}

# Processes that have the library, which `stat`, `top` and `explain` can look at.
_hakmem_processes() {
    local file
    for file in $(grep -ls libhakmem.so /proc/[0-9]*/maps); do
        file=${file#/proc/}
        echo "${file%/maps}"
    done
}

_hakmem() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i
    local names='PROFILE CONF TINY_PROFILE TINY_POLICY_PROFILE LEARN ON_ERROR ERROR_FILE STATS STATS_FILE TIMING LIVE PROF PROF_RATE PROF_FILE PROF_GROWTH PROF_INTERVAL PROF_SIGNAL LEAK PURGE_DELAY_MS PURGE_THREAD CACHE_BUDGET SHARDS TRYLOCK_PROBES TINY_STATS_DUMP TINY_POLICY_LOG WARM_TLS_BIND_C7 WARM_POOL_SIZE WARM_POOL_STATS TINY_WARM_LOG TINY_PAGEBOX_LOG POOL_TLS_RING POOL_RING_CAP RING_RETURN_DIV POOL_MIN_BUNDLE TLS_LO_MAX HDR_LIGHT MID_DYN1 WRAP_L2 WRAP_L25 POOL_DRAIN_MAX SHARD_MIX L25_RUN_FACTOR L25_TC_SPILL L25_PREF DISABLE_BATCH HUGE_CACHE HARDENED QUARANTINE QUARANTINE_BYTES RANDOM_PLACEMENT ZERO_ON_FREE CHECK_FREED CANARY CHECK_MISMATCH GUARD_LARGE GUARD_UNITS GUARD_EMPTY GUARD_SAMPLE LIMIT LIMIT_SOFT SS_SIZE SS_BUDGET TINY_SS_PARTIAL TINY_SS_PARTIAL_INTERVAL TINY_USE_SUPERSLAB SS_PREFAULT THP' profiles='MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED C6_HEAVY LOWMEM SERVER DEBUG LARGE_P1 LARGE_P2_TC HARDENED'
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'run stat export top explain options compare tune prof report record replay --help --version' -- "$current")
        return
    fi
    case ${COMP_WORDS[1]} in
    options)
        ((COMP_CWORD == 2)) && mapfile -t COMPREPLY < <(compgen -W "$names --all --from-jemalloc --from-mimalloc --from-tcmalloc" -- "${current#HAKMEM_}")
        return
        ;;
    stat)
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '--wide --json --map --prometheus --every --count' -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -W "$(_hakmem_processes)" -- "$current")
        fi
        return
        ;;
    explain)
        mapfile -t COMPREPLY < <(compgen -f -W "$(_hakmem_processes)" -- "$current")
        return
        ;;
    export)
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '--listen' -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_processes)" -- "$current")
        fi
        return
        ;;
    top)
        if [[ $before == --sort || ($before == = && ${COMP_WORDS[COMP_CWORD - 2]} == --sort) ]]; then
            mapfile -t COMPREPLY < <(compgen -W 'bytes live cached misses locks' -- "$current")
        elif [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '--interval --sort --once' -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_processes)" -- "$current")
        fi
        return
        ;;
    replay)
        if [[ $before == --alloc || ($before == = && ${COMP_WORDS[COMP_CWORD - 2]} == --alloc) ]]; then
            mapfile -t COMPREPLY < <(compgen -W 'hakmem system mimalloc jemalloc tcmalloc' -- "$current")
        elif [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '--alloc= --touch=all --touch=none --json' -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
        ;;
    prof | report)
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W '-o --help' -- "$current")
        elif [[ $before == -o ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -W "$(_hakmem_processes)" -- "$current")
        fi
        return
        ;;
    run | record | compare | tune) ;;
    *) return ;;
    esac
    # Behind "--" stands a command of its own.
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif ((i + 1 == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
    done
    # The shell splits words at "=", which is then a word.
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $before in
    --profile) mapfile -t COMPREPLY < <(compgen -W "$profiles" -- "$current") ;;
    --stats) mapfile -t COMPREPLY < <(compgen -W 'text json off' -- "$current") ;;
    --opt) compopt -o nospace && mapfile -t COMPREPLY < <(compgen -S = -W "$names" -- "$current") ;;
    *)
        if [[ " $names " == *" ${before#HAKMEM_} "* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_hakmem_values "$before")" -- "$current")
        else
            local options='--profile= --opt --stats= --debug --help --'
            [[ ${COMP_WORDS[1]} == record ]] && options='--out --limit --children --help --'
            [[ ${COMP_WORDS[1]} == compare ]] && options='--alloc= --rounds= --resume= --out= --help --'
            [[ ${COMP_WORDS[1]} == tune ]] && options='--goal= --trace= --resume= --out= --help --'
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
            [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
        fi
        ;;
    esac
}

complete -F _hakmem hakmem
