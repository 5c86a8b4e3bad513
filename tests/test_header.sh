#!/bin/sh
# Every header compiles alone: the public one as C11 and as C++, the internal ones as C11.
#
# usage: test_header.sh SOURCE_ROOT C_COMPILER...
set -eu
. "$(dirname "$0")/tap.sh"
root=$(cd "$1" && pwd)
shift
warnings='-Wall -Wextra -Wpedantic -Werror'

cxx=
for candidate in "${CXX:-}" g++ clang++ c++; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null; then
        cxx=$candidate
        break
    fi
done

# A header that needs another included before it fails in such a file; included twice, so does one
# without a guard.
alone() {
    printf '#include "%s"\n#include "%s"\n' "$1" "$1"
}

compile_c() { # HEADER COMPILER...
    alone "$1" >"$scratch/alone.c"
    shift
    "$@" -std=c11 $warnings -D_GNU_SOURCE -fsyntax-only -I"$root/include" -I"$root/src" \
        -I"$root/kernels" "$scratch/alone.c"
}

# The public header gets no include path of ours beyond its own and no feature macro.
compile_public() { # LANGUAGE STANDARD COMPILER...
    language=$1 standard=$2
    shift 2
    alone ringlet/ringlet.h >"$scratch/public"
    "$@" -x "$language" "-std=$standard" $warnings -fsyntax-only -I"$root/include" "$scratch/public"
}

expect 'ringlet.h as C11' compile_public c c11 "$@"
expect 'ringlet.h as C17' compile_public c c17 "$@"
for standard in c++11 c++17; do
    if [ -n "$cxx" ]; then
        expect "ringlet.h as $standard" compile_public c++ "$standard" "$cxx"
    else
        skip "ringlet.h as $standard" 'no C++ compiler'
    fi
done

for header in $(cd "$root" && find src kernels bench -name '*.h' 2>/dev/null | sort); do
    expect "$header" compile_c "$root/$header" "$@"
done
finish
