# TAP for the shell tests: ok, not_ok, skip_rest, finish. Sourced, never run.
# Owns the counting. A test that forgets finish prints no plan and so fails.
tap_count=0 tap_failed=0

ok() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $*"
}

# not_ok NAME [FILE]: FILE's lines say why.
not_ok() {
    tap_count=$((tap_count + 1)) tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    if [ -n "${2:-}" ]; then
        sed 's/^/# /' "$2"
    fi
}

# skip NAME REASON
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# expect NAME COMMAND...: ok if the command succeeds, else its output says why.
expect() {
    tap_name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        ok "$tap_name"
    else
        not_ok "$tap_name" "$scratch/output"
    fi
}

finish() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
