#!/bin/sh
# Installs what the tests need, or names it and fails: no test is skipped for want of a package.
# With the word "build": what it takes to build them, and to run those that need no other program;
# with the word "packages": what the tests of packages need beside that; with the word "long": all that the
# long doses need, a compiler and emulators of other machines among it.
set -eu
case ${1:-} in -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)

# zlib is what `hakmem record` and `hakmem replay` need beside the library.
build='h:cmocka.h=libcmocka-dev h:zlib.h=zlib1g-dev cmake=cmake gcc=gcc g++=g++ python3=python3'
if [ "${1:-}" = build ]; then
    # shellcheck disable=SC2086 # a list of pairs
    exec "$here/../scripts/install_deps.sh" $build
fi

# What packages are made with, and their consumers are built with.
packages='pkg-config=pkg-config dpkg-deb=dpkg dpkg-shlibdeps=dpkg-dev file=file gzip=gzip objdump=binutils
    cargo=cargo py:ensurepip=python3-venv'
if [ "${1:-}" = packages ]; then
    # shellcheck disable=SC2086 # a list of pairs
    exec "$here/../scripts/install_deps.sh" $packages debootstrap=debootstrap
fi

cross=''
if [ "${1:-}" = long ]; then
    cross='aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu aarch64-linux-gnu-g++=g++-aarch64-linux-gnu
        qemu-aarch64=qemu-user qemu-system-x86_64=qemu-system-x86 busybox=busybox-static cpio=cpio'
fi

# A package of a server starts it when it is installed. Here nothing may be left running.
policy=/usr/sbin/policy-rc.d
if [ "$(id -u)" -eq 0 ] && ! command -v redis-server >/dev/null 2>&1 && [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
fi

# shellcheck disable=SC2086 # lists of pairs
"$here/../scripts/install_deps.sh" $build $packages $cross py:sqlite3=libpython3-stdlib \
    strace=strace valgrind=valgrind gdb=gdb heaptrack=heaptrack objdump=binutils git=git perl=perl sqlite3=sqlite3 \
    redis-server=redis-server redis-benchmark=redis-tools node=nodejs \
    javac=default-jdk-headless z3=z3 ruby=ruby lua5.4=lua5.4 gs=ghostscript
