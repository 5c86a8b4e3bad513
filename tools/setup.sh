# What ./run-bench and ./run-tests share: the packages a build needs, and build folders. Sourced.
# Owns the list of Debian packages. Never touches the network when nothing is missing.

# CUDA is used where it is usually installed, also when it is not on PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
    PATH=$PATH:/usr/local/cuda/bin
fi

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

compiles() { # COMPILER OPTION... : a C program on standard input
    "$@" -x c - -o /dev/null 2>/dev/null
}

# Whether what a package brings is there, wherever it came from.
have() {
    case $1 in
    build-essential)
        command -v g++ >/dev/null && command -v objcopy >/dev/null &&
            compiles gcc <<<'#include <stdio.h>
int main(void) { return 0; }'
        ;;
    meson) command -v meson >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    python3) command -v python3 >/dev/null ;;
    check) pkg-config --exists check 2>/dev/null ;;
    clang) command -v clang >/dev/null ;;
    libomp-dev)
        compiles clang -fopenmp <<<'#include <omp.h>
int main(void) { return omp_get_max_threads() < 1; }'
        ;;
    *) fail "no way is known to tell whether $1 is there" ;;
    esac
}

missing_of() {
    local package
    for package; do
        have "$package" || printf '%s ' "$package"
    done
}

# Installs what is missing of the Debian packages named.
need() {
    local missing as_root=() install
    missing=$(missing_of "$@")
    [ -n "$missing" ] || return 0
    install="apt-get install --yes --no-install-recommends $missing"

    command -v apt-get >/dev/null ||
        fail "these packages, or what your system calls them, are needed: $missing"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            fail "packages are missing, and this is neither root nor is there sudo;" \
                "as root, run: $install"
        as_root=(sudo)
        # Without a terminal nobody could type the password.
        [ -t 0 ] || as_root+=(-n)
    fi
    echo "$(basename "$0"): installing $missing" >&2
    as_root+=(env DEBIAN_FRONTEND=noninteractive)
    mkdir -p build
    # An update can fail and the lists that are there be good enough.
    # shellcheck disable=SC2086 # package names hold no blanks
    {
        "${as_root[@]}" apt-get update --quiet=2 || true
        "${as_root[@]}" apt-get install --yes --quiet=2 --no-install-recommends $missing
    } >build/install.log 2>&1 </dev/null || {
        tail -n 20 build/install.log >&2
        fail "this failed, with more above and in build/install.log: $install"
    }
    missing=$(missing_of "$@")
    [ -z "$missing" ] || fail "still missing after installing them: $missing"
}

# configure FOLDER COMPILER OPTION...: a build folder set up in this way; at once if it already is.
configure() {
    local folder=$1 compiler=$2
    shift 2
    local way
    way="$compiler $("$compiler" -dumpfullversion -dumpversion) nvcc=$(command -v nvcc || true) $*"
    if [ -f "$folder/build.ninja" ] && [ "$(cat "$folder/way" 2>/dev/null)" = "$way" ]; then
        return 0
    fi
    # Anew, since meson can neither go on from nor wipe a folder whose first configuration failed.
    rm -rf "$folder"
    CC=$compiler meson setup "$folder" "$@" && echo "$way" >"$folder/way"
}
