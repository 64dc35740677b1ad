#!/bin/sh
# Installs what the tests need, or names it and fails: no test is skipped for want of a package.
# With the word "build": what it takes to build them, and to run those that need no other program;
# with the word "packages": what the tests of packages need beside that.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# A pair is command=package. cmocka is a header; a name that no command has stands for it.
cmocka=''
echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || cmocka=cmocka.h=libcmocka-dev

if [ "${1:-}" = build ]; then
    # shellcheck disable=SC2086 # none or one pair
    exec "$here/../scripts/install_deps.sh" $cmocka cmake=cmake gcc=gcc g++=g++ python3=python3
fi

# What packages are made with, and their consumers are built with.
packages='pkg-config=pkg-config dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev file=file gzip=gzip objdump=binutils
    cargo=cargo py:ensurepip=python3-venv'
if [ "${1:-}" = packages ]; then
    # shellcheck disable=SC2086 # a list of pairs
    exec "$here/../scripts/install_deps.sh" $packages
fi

# A package of a server starts it when it is installed. Here nothing may be left running.
policy=/usr/sbin/policy-rc.d
if [ "$(id -u)" -eq 0 ] && ! command -v redis-server >/dev/null 2>&1 && [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi

# shellcheck disable=SC2086 # lists of pairs
"$here/../scripts/install_deps.sh" $cmocka $packages \
    cmake=cmake gcc=gcc g++=g++ python3=python3 py:sqlite3=libpython3-stdlib \
    strace=strace valgrind=valgrind objdump=binutils git=git perl=perl sqlite3=sqlite3 \
    redis-server=redis-server redis-benchmark=redis-tools node=nodejs \
    javac=default-jdk-headless z3=z3 ruby=ruby lua5.4=lua5.4 gs=ghostscript
