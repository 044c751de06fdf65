#!/bin/sh
# Every client against every server: makes throw-away environments, runs all cells, writes docs/clients.md.
#
#   tests/clients/run.sh [arguments of run.py]      BUILD=build/release, ENVIRONMENTS=a folder that is kept, UNPINNED=1
#
# Needs Python 3.11 or later with venv, a build with tests, and the packages of requirements*.txt (some 1 GB; guidellm's
# bring 5 GB more and are left out without GUIDELLM=1). Templates of published models: LF_ASSETS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
folder=${ENVIRONMENTS:-$(mktemp -d)}
[ -n "${ENVIRONMENTS:-}" ] || trap 'rm -rf "$folder"' EXIT

environment() { # name, requirements
    [ ! -x "$folder/$1/bin/python" ] || return 0
    python3 -m venv "$folder/$1"
    if [ -n "${UNPINNED:-}" ]; then
        sed 's/==.*//' "$here/$2" > "$folder/$2"
        "$folder/$1/bin/pip" install -q -r "$folder/$2"
    else
        "$folder/$1/bin/pip" install -q -r "$here/$2"
    fi
}

environment venv requirements.txt
environment other requirements-other.txt
[ -z "${GUIDELLM:-}" ] || environment guidellm requirements-guidellm.txt
cmake --build "$build" --target longflash scripted_server
set -- --build "$build" --venv "$folder/venv" --other "$folder/other" --page "$root/docs/clients.md" "$@"
[ -z "${GUIDELLM:-}" ] || set -- "$@" --guidellm "$folder/guidellm"
python3 "$here/run.py" "$@"
