#compdef hakmem
# zsh completion for hakmem(1). Made by scripts/options_doc.py from the tables of options and
# profiles.

_hakmem_values() {
    case ${1#HAKMEM_} in
    PROFILE) echo 'none MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED C6_HEAVY LOWMEM SERVER DEBUG' ;;
    TINY_POLICY_PROFILE) echo 'legacy c5_7_only tinyplus_all auto' ;;
    LEARN) echo 'off observe on' ;;
    ON_ERROR) echo 'abort report' ;;
    STATS) echo 'off text json' ;;
    PURGE_THREAD) echo '0 1' ;;
    TINY_STATS_DUMP) echo '0 1' ;;
    TINY_POLICY_LOG) echo '0 1' ;;
    WARM_POOL_STATS) echo '0 1' ;;
    TINY_WARM_LOG) echo '0 1' ;;
    TINY_PAGEBOX_LOG) echo '0 1' ;;
    POOL_TLS_RING) echo '0 1' ;;
    WRAP_L2) echo '0 1' ;;
    WRAP_L25) echo '0 1' ;;
    SHARD_MIX) echo '0 1' ;;
    L25_PREF) echo 'local remote' ;;
    DISABLE_BATCH) echo '0 1' ;;
    esac
}

_hakmem_settings() {
    local -a names values
    names=(PROFILE CONF TINY_POLICY_PROFILE LEARN ON_ERROR STATS STATS_FILE PURGE_DELAY_MS PURGE_THREAD CACHE_BUDGET SHARDS TRYLOCK_PROBES TINY_STATS_DUMP TINY_POLICY_LOG WARM_TLS_BIND_C7 WARM_POOL_SIZE WARM_POOL_STATS TINY_WARM_LOG TINY_PAGEBOX_LOG POOL_TLS_RING POOL_RING_CAP RING_RETURN_DIV POOL_MIN_BUNDLE TLS_LO_MAX WRAP_L2 WRAP_L25 POOL_DRAIN_MAX SHARD_MIX L25_RUN_FACTOR L25_TC_SPILL L25_PREF DISABLE_BATCH HUGE_CACHE LIMIT LIMIT_SOFT SS_PREFAULT)
    if compset -P 1 '*='; then
        values=(${=$(_hakmem_values ${IPREFIX%=})})
        compadd -a values
    else
        compadd -S = -a names
    fi
}

_hakmem() {
    local -a names
    names=(PROFILE CONF TINY_POLICY_PROFILE LEARN ON_ERROR STATS STATS_FILE PURGE_DELAY_MS PURGE_THREAD CACHE_BUDGET SHARDS TRYLOCK_PROBES TINY_STATS_DUMP TINY_POLICY_LOG WARM_TLS_BIND_C7 WARM_POOL_SIZE WARM_POOL_STATS TINY_WARM_LOG TINY_PAGEBOX_LOG POOL_TLS_RING POOL_RING_CAP RING_RETURN_DIV POOL_MIN_BUNDLE TLS_LO_MAX WRAP_L2 WRAP_L25 POOL_DRAIN_MAX SHARD_MIX L25_RUN_FACTOR L25_TC_SPILL L25_PREF DISABLE_BATCH HUGE_CACHE LIMIT LIMIT_SOFT SS_PREFAULT)
    if ((CURRENT == 2)); then
        local -a commands
        commands=(
            'run:start a program on HAKMEM'
            'stat:show statistics that a program has left in a file'
            'options:show every option with its value, source, range and help'
            '--help:show how to use it'
            '--version:show the version'
        )
        _describe command commands
        return
    fi
    case $words[2] in
    options) ((CURRENT == 3)) && compadd -a names ;;
    stat) _arguments '--json[the file as it is]' '--prometheus[the text format of Prometheus]' '*:file:_files' ;;
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
            "--profile=[a named group of settings]:profile:(MIXED_TINYV3_C7_SAFE MIXED_TINYV3_C7_BALANCED C6_HEAVY LOWMEM SERVER DEBUG)" \
            '*--opt[one setting]:NAME=VALUE:_hakmem_settings' \
            '--stats=[statistics when the program ends]:form:(text json off)' \
            '--debug[the debug build of the library]' \
            '--help[show how to use it]' \
            '*::program:_normal'
        ;;
    esac
}

_hakmem "$@"
