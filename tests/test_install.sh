#!/bin/sh
# Whether what `meson install` lays down can be used: the example is built through pkg-config
# against the shared and against the static library, and run. So are the programs that README shows.
#
# usage: test_install.sh SOURCE_ROOT BUILD_ROOT SANITIZERS C_COMPILER...
set -eu
. "$(dirname "$0")/tap.sh"
source=$1 build=$2 sanitizers=$3
shift 3
[ "$sanitizers" = none ] || set -- "$@" "-fsanitize=$sanitizers"

example=$source/examples/all_reduce.c
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

compile() { # SOURCE PROGRAM FLAGS COMPILER...
    code=$1 program=$2 flags=$3
    shift 3
    # shellcheck disable=SC2086 # flags are words
    "$@" -std=c11 -Wall -Wextra -Wpedantic -Werror "$code" -o "$program" -pthread $flags
}

# The C programs of a Markdown file, as FOLDER/1.c, FOLDER/2.c, ...
programs_of() { # FILE FOLDER
    mkdir -p "$2"
    awk -v folder="$2" '/^```c$/ { file = folder "/" ++n ".c"; next } /^```$/ { file = "" }
        file != "" { print > file }' "$1"
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

# A page that the command itself prints; its tests say what is in it.
page=$(find "$root$prefix" -path '*/man/man1/ringlet.1')
command=$(find "$root$prefix" -path '*/bin/ringlet')
expect 'the man page is installed' test -s "$page"
expect 'it is the one of the command' sh -c '"$1" man | cmp - "$2"' sh "$command" "$page"

if [ -e "$libraries/libringlet.so" ]; then
    expect 'the example builds against the shared library' \
        compile "$example" "$scratch/shared" "$(flags --cflags --libs)" "$@"
    expect 'it needs libringlet.so.0' needs "$scratch/shared"
    expect 'it runs' run "$scratch/shared"

    # These want two GPUs, so they are run on emulated ones.
    programs_of "$source/README.md" "$scratch/readme"
    for code in "$scratch"/readme/*.c; do
        name="program $(basename "$code" .c) of README"
        expect "$name builds" compile "$code" "${code%.c}" "$(flags --cflags --libs)" "$@"
        expect "$name runs" run env CUDA_VISIBLE_DEVICES= "${code%.c}"
    done
fi
if [ -e "$libraries/libringlet.a" ]; then
    rm -f "$libraries"/libringlet.so*
    expect 'the example builds against the static library' \
        compile "$example" "$scratch/static" "$(flags --cflags --libs --static)" "$@"
    expect 'it needs no shared one' needs_not "$scratch/static"
    expect 'it runs' "$scratch/static"
fi
finish
