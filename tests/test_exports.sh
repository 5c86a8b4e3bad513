#!/bin/sh
# What the installed libraries show to a linker: the ringlet_ names and nothing else.
#
# usage: test_exports.sh HEADER LIBRARY...
set -eu
. "$(dirname "$0")/tap.sh"
header=$1
shift

# Names that the header declares with RINGLET_API, each of which must be there.
tr '\n' ' ' <"$header" | grep -o 'RINGLET_API [^(]*(' |
    sed -n 's/.*[ *]\(ringlet_[a-z_0-9]*\) *($/\1/p' | sort >"$scratch/declared"
[ -s "$scratch/declared" ] || not_ok 'the header declares functions'

exported() {
    case $1 in
    *.a) nm -g --defined-only "$1" ;;
    *) nm -D --defined-only "$1" ;;
    esac | awk 'NF == 3 { print $3 }' | sort
}

nothing_else() {
    ! grep -v '^ringlet_' "$1"
}

all_there() {
    missing=$(comm -23 "$scratch/declared" "$1")
    [ -z "$missing" ] || { echo "declared, not defined: $missing"; return 1; }
}

soname_is() {
    found=$(objdump -p "$1" | awk '$1 == "SONAME" { print $2 }')
    [ "$found" = "$2" ] || { echo "SONAME is '$found', not '$2'"; return 1; }
}

for library; do
    name=$(basename "$library")
    exported "$library" >"$scratch/exported"
    expect "$name shows ringlet_ names alone" nothing_else "$scratch/exported"
    expect "$name has every function of the header" all_there "$scratch/exported"
    case $name in
    *.so*) expect "$name has its SONAME" soname_is "$library" libringlet.so.0 ;;
    esac
done
finish
