#!/bin/sh
# Makes the installed static library out of the internal one.
# Owns what libringlet.a shows to a linker: the ringlet_ names; every other symbol is made local.
# Never compiles anything.
#
# usage: static-library.sh OUTPUT.a INTERNAL.a COMPILER...
set -eu
output=$1 internal=$2
shift 2

object=$output.p
mkdir -p "$object"
object=$object/ringlet.o

# One relocatable object: symbols that only the library's own files share can then become local.
# Groups are resolved, since a group whose signature becomes local would be no group any more.
"$@" -r -nostdlib -o "$object.whole" \
    -Wl,--force-group-allocation -Wl,--whole-archive "$internal" -Wl,--no-whole-archive
objcopy --wildcard --keep-global-symbol='ringlet_*' "$object.whole" "$object"
rm -f "$output" "$object.whole"
ar rcs "$output" "$object"
