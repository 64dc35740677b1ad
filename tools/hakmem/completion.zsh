#compdef hakmem
# zsh completion for hakmem(1). Made by scripts/options_doc.py from the tables of options and
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

_hakmem_settings() {
    local -a names values
    names=(PROFILE CONF TINY_PROFILE TINY_POLICY_PROFILE LEARN ON_ERROR ERROR_FILE STATS STATS_FILE TIMING LIVE PROF PROF_RATE PROF_FILE PROF_GROWTH PROF_INTERVAL PROF_SIGNAL LEAK PURGE_DELAY_MS PURGE_THREAD CACHE_BUDGET SHARDS TRYLOCK_PROBES TINY_STATS_DUMP TINY_POLICY_LOG WARM_TLS_BIND_C7 WARM_POOL_SIZE WARM_POOL_STATS TINY_WARM_LOG TINY_PAGEBOX_LOG POOL_TLS_RING POOL_RING_CAP RING_RETURN_DIV POOL_MIN_BUNDLE TLS_LO_MAX HDR_LIGHT MID_DYN1 WRAP_L2 WRAP_L25 POOL_DRAIN_MAX SHARD_MIX L25_RUN_FACTOR L25_TC_SPILL L25_PREF DISABLE_BATCH HUGE_CACHE HARDENED QUARANTINE QUARANTINE_BYTES RANDOM_PLACEMENT ZERO_ON_FREE CHECK_FREED CANARY CHECK_MISMATCH GUARD_LARGE GUARD_UNITS GUARD_EMPTY GUARD_SAMPLE LIMIT LIMIT_SOFT SS_SIZE SS_BUDGET TINY_SS_PARTIAL TINY_SS_PARTIAL_INTERVAL TINY_USE_SUPERSLAB SS_PREFAULT THP)
    if compset -P 1 '*='; then
        values=(${=$(_hakmem_values ${IPREFIX%=})})
        compadd -a values
    else
        compadd -S = -a names
    fi
}

# Processes that have the library, which `stat`, `top` and `explain` can look at.
_hakmem_processes() {
    local -a processes
    processes=(${${${(f)"$(grep -ls libhakmem.so /proc/[0-9]*/maps)"}#/proc/}%/maps})
    compadd -a -- processes
}

_hakmem_processes_and_files() {
    _hakmem_processes
    _files
}

_hakmem() {
    local -a names
    names=(PROFILE CONF TINY_PROFILE TINY_POLICY_PROFILE LEARN ON_ERROR ERROR_FILE STATS STATS_FILE TIMING LIVE PROF PROF_RATE PROF_FILE PROF_GROWTH PROF_INTERVAL PROF_SIGNAL LEAK PURGE_DELAY_MS PURGE_THREAD CACHE_BUDGET SHARDS TRYLOCK_PROBES TINY_STATS_DUMP TINY_POLICY_LOG WARM_TLS_BIND_C7 WARM_POOL_SIZE WARM_POOL_STATS TINY_WARM_LOG TINY_PAGEBOX_LOG POOL_TLS_RING POOL_RING_CAP RING_RETURN_DIV POOL_MIN_BUNDLE TLS_LO_MAX HDR_LIGHT MID_DYN1 WRAP_L2 WRAP_L25 POOL_DRAIN_MAX SHARD_MIX L25_RUN_FACTOR L25_TC_SPILL L25_PREF DISABLE_BATCH HUGE_CACHE HARDENED QUARANTINE QUARANTINE_BYTES RANDOM_PLACEMENT ZERO_ON_FREE CHECK_FREED CANARY CHECK_MISMATCH GUARD_LARGE GUARD_UNITS GUARD_EMPTY GUARD_SAMPLE LIMIT LIMIT_SOFT SS_SIZE SS_BUDGET TINY_SS_PARTIAL TINY_SS_PARTIAL_INTERVAL TINY_USE_SUPERSLAB SS_PREFAULT THP)
    if ((CURRENT == 2)); then
        local -a commands
        commands=(
            'run:start a program on HAKMEM'
            'stat:show statistics of a process, or of a file'
            'export:serve the figures of processes to Prometheus'
            'top:show a process while it runs, by tier and size class'
            'explain:show what the resident memory of a process consists of'
            'compare:run a program on several allocators in turn'
            'tune:search the options that serve a program best'
            'prof:write a heap profile as pprof reads it'
            'report:draw heap profiles as an HTML page'
            'record:write the allocations of a program to a file'
            'replay:repeat recorded allocations on allocators'
            'options:show the options for users (--all: every one), or explain one'
            '--help:show how to use it'
            '--version:show the version'
        )
        _describe command commands
        return
    fi
    case $words[2] in
    options) ((CURRENT == 3)) && compadd -- $names --all --from-jemalloc --from-mimalloc --from-tcmalloc ;;
    stat) _arguments '--wide[all figures of each size class]' '--json[JSON]' '--map[with the use of each page]' '--prometheus[the text format of Prometheus]' \
            '--every=[seconds between two lines of JSON]:seconds:' '--count=[lines]:number:' '*:process or file:_hakmem_processes_and_files' ;;
    export) _arguments '--listen=[where to listen]:[ADDRESS\:]PORT:' '*:process:_hakmem_processes' ;;
    prof) _arguments '-o[the file to write]:file:_files' '*:process or file:_hakmem_processes_and_files' ;;
    report) _arguments '-o[the page to write]:file:_files' '*:process or profile:_hakmem_processes_and_files' ;;
    explain) _arguments '*:process or file:_hakmem_processes_and_files' ;;
    replay)
        _arguments '--alloc=[on these allocators]:list:(hakmem system mimalloc jemalloc tcmalloc)' \
            '--touch=[pages of a block]:pages:(all none)' '--json[JSON]' '*:trace:_files'
        ;;
    record)
        _arguments -S '--out=[the trace]:file:_files' '--limit=[bytes of the trace]:size:' \
            '--children[also child processes]' '*::program:_normal'
        ;;
    tune)
        _arguments -S '--goal=[what shall be less]:goal:(time memory)' '--trace=[search on it]:file:_files' \
            '--resume=[go on]:folder:_files -/' '*::program:_normal'
        ;;
    compare)
        _arguments -S '--alloc=[allocators]:list:(hakmem system mimalloc jemalloc tcmalloc)' \
            '--rounds=[runs of each]:number:' '--resume=[go on]:folder:_files -/' '*::program:_normal'
        ;;
    top)
        _arguments '--interval=[seconds between two looks]:seconds:' \
            '--sort=[which classes come first]:key:(bytes live cached misses locks)' \
            '--once[one table, after one interval]' '*:process:_hakmem_processes'
        ;;
    run)
        integer dashes=${words[(i)--]}
        if ((dashes < CURRENT)); then
            words=("${(@)words[dashes + 1,-1]}")
            ((CURRENT -= dashes))
            _normal
            return
        fi
        words=("${(@)words[2,-1]}")
        ((CURRENT--))
        _arguments -S \
            "--profile=[a named group of settings]:profile:(MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED C6_HEAVY LOWMEM SERVER DEBUG LARGE_P1 LARGE_P2_TC HARDENED)" \
            '*--opt[one setting]:NAME=VALUE:_hakmem_settings' \
            '--stats=[statistics when the program ends]:form:(text json off)' \
            '--debug[the debug build of the library]' \
            '--help[show how to use it]' \
            '*::program:_normal'
        ;;
    esac
}

_hakmem "$@"
