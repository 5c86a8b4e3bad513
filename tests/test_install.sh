#!/bin/sh
# Whether what `meson install` lays down can be used: the example is built through pkg-config against
# the shared and against the static library, and run.
#
# usage: test_install.sh SOURCE_ROOT BUILD_ROOT SANITIZERS C_COMPILER...
set -eu
. "$(dirname "$0")/tap.sh"
source=$1 build=$2 sanitizers=$3
shift 3
[ "$sanitizers" = none ] || set -- "$@" "-fsanitize=$sanitizers"

root=$scratch/root
expect 'meson install' meson install -C "$build" --no-rebuild --destdir "$root"
description=$(find "$root" -name ringlet.pc)
libraries=$(dirname "$(dirname "$description")")
prefix=$(sed -n 's/^prefix=//p' "$description")

# The description names the final prefix; the files lie below the staging folder.
flags() {
    PKG_CONFIG_LIBDIR=$(dirname "$description") \
        pkg-config "--define-variable=prefix=$root$prefix" "$@" ringlet
}

compile() { # PROGRAM FLAGS COMPILER...
    program=$1 flags=$2
    shift 2
    # shellcheck disable=SC2086 # flags are words
    "$@" -std=c11 -Wall -Wextra -Wpedantic -Werror "$source/examples/all_reduce.c" -o "$program" $flags
}

needs() { # PROGRAM: whether it needs the shared library
    objdump -p "$1" | grep -q 'NEEDED *libringlet\.so\.0$'
}

needs_not() {
    ! needs "$1"
}

run() {
    LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

expect 'the version is the library'\''s' test \
    "$(flags --modversion)" = "$(meson introspect --projectinfo "$build" |
        sed -n 's/.*"version": "\([^"]*\)".*/\1/p')"

if [ -e "$libraries/libringlet.so" ]; then
    expect 'the example builds against the shared library' \
        compile "$scratch/shared" "$(flags --cflags --libs)" "$@"
    expect 'it needs libringlet.so.0' needs "$scratch/shared"
    expect 'it runs' run "$scratch/shared"
fi
if [ -e "$libraries/libringlet.a" ]; then
    rm -f "$libraries"/libringlet.so*
    expect 'the example builds against the static library' \
        compile "$scratch/static" "$(flags --cflags --libs --static)" "$@"
    expect 'it needs no shared one' needs_not "$scratch/static"
    expect 'it runs' "$scratch/static"
fi
finish
