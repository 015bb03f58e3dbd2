#!/usr/bin/env bash
# The one entry: makes .venv and installs into it when needed, then hands over to Python.
#   ./run.sh GAME=Pong    train          ./run.sh test    format, lint, types and tests; QUICK=1: the quick ones
#   ./run.sh help         all commands and settings
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv="$root/.venv"

say() { printf 'ga3c: %s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "Python 3.11 or newer is needed and was not found; PYTHON=/path/to/python ./run.sh … names one"
    exit 1
}

# Installs what an extra ("" or "test") needs, unless this very list was installed before.
install() {
    local extra=$1 list python
    list=$(cat "$root/setup.cfg" "$root/constraints.txt" | cksum | cut -d' ' -f1)
    [ -e "$venv/installed-${extra:-base}-$list" ] && return
    if [ ! -x "$venv/bin/python" ]; then
        python=$(find_python)
        say "making a virtual environment in .venv with $("$python" --version)"
        "$python" -m venv "$venv"
    fi
    say "installing the pinned packages${extra:+ for '$extra'} (once; torch is large, this can take minutes)"
    # By a path, not by a finder: that would lose against a folder of the name ga3c, as a clone is, where a script stands.
    "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --progress-bar off \
        --config-settings editable_mode=compat \
        --constraint "$root/constraints.txt" --editable "$root${extra:+[$extra]}"
    touch "$venv/installed-${extra:-base}-$list" "$venv/installed-base-$list"
    say "installed"
}

# The words go to pytest, but for QUICK=1: only tests that need no process, for work between commits, and LONG=1: those
# that take minutes as well. Without any, three tests run at a time, since most of them wait for processes most of the
# time, and after them those that need the machine for themselves.
run_tests() {
    local word code=0 marks="not long"
    for word in "$@"; do
        shift
        case "$word" in
            QUICK=1) marks="not long and not processes" ;;
            LONG=1) marks="long or not long" ;;
            *) set -- "$@" "$word" ;;
        esac
    done
    cd "$root"
    say "format, lint, types"
    "$venv/bin/ruff" format --check .
    "$venv/bin/ruff" check .
    "$venv/bin/mypy"
    say "tests"
    [ $# -eq 0 ] || exec "$venv/bin/python" -m pytest -m "$marks" "$@"
    "$venv/bin/python" -m pytest -m "($marks) and not (alone or long)" -n 3 --dist worksteal || code=$?
    # More than 1 says that it was stopped, or could not run; and the quick ones need no machine for themselves.
    if [ $code -gt 1 ] || [[ $marks == *processes* ]]; then exit $code; fi
    say "tests that run alone"
    "$venv/bin/python" -m pytest -m "($marks) and (alone or long)" || code=$?
    exit $code
}

if [ "${1:-}" = test ]; then
    shift
    install test
    if [[ " $* " == *" LONG=1 "* ]]; then install long; fi
    run_tests "$@"
fi
if [ "${1:-}" = simulate ]; then
    install test # for Optuna, which it compares with
fi
if [ "${1:-}" = export ] && [[ " $* " == *".onnx "* ]]; then
    install export
fi
install ""
# exec, so that Ctrl-C and signals reach Python itself.
exec "$venv/bin/python" -m ga3c "$@"
