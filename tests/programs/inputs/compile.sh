#!/bin/sh
# A workload for compilers: compile.sh COMPILER FLAGS FOLDER. Prints the assembly of the first source
# files below the folder, and the sums of their object files.
set -eu
case $1 in
*++) pattern='*.cpp' ;;
*) pattern='*.c' ;;
esac
find "$3" -name "$pattern" | LC_ALL=C sort | head -n 6 >sources
test -s sources
while read -r source; do
    # shellcheck disable=SC2086 # flags are words
    $1 -O2 $2 -save-temps=obj -c -o object.o "$source"
    cat object.s
    cksum object.o
done <sources
