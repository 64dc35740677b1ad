#!/bin/sh
# Makes sure that commands exist: install_deps.sh command=package ...
# What is missing is installed with apt-get where that is allowed (root, Debian family); otherwise
# it is named, with the command that would install it, and the exit status is 1. HAKMEM_BENCH_NO_INSTALL=1
# has it named in any case.
# A word that starts with "py:" is a Python module instead of a command (py:venv=python3-venv), one that
# starts with "h:" a C header (h:zlib.h=zlib1g-dev).
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac

present() {
    case $1 in
    py:*) python3 -c "import ${1#py:}" >/dev/null 2>&1 ;;
    h:*) echo "#include <${1#h:}>" | ${CC:-cc} -E - >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing='' packages=''
for pair in "$@"; do
    if ! present "${pair%%=*}"; then
        missing="$missing ${pair%%=*}"
        packages="$packages ${pair#*=}"
    fi
done
[ -n "$missing" ] || exit 0

if [ -n "${HAKMEM_BENCH_NO_INSTALL:-}" ] || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing" >&2
    echo "install with: sudo apt-get install$packages" >&2
    exit 1
fi

echo "missing:$missing; installing with apt-get:$packages (HAKMEM_BENCH_NO_INSTALL=1 only names them)"
export DEBIAN_FRONTEND=noninteractive
# A package of a server starts it when it is installed. Here nothing may be left running.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi
# Package lists may be absent or out of date: fetch them only when the first try fails.
# Another apt-get at work, such as that of a second make, is waited for.
# shellcheck disable=SC2086 # a list of words
install() { apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends $packages >/dev/null; }
install 2>&1 || { apt-get -o DPkg::Lock::Timeout=600 update -q >/dev/null && install; }
