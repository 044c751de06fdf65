#!/bin/sh
# /openapi.json against what the server does: validated, then schemathesis asks all of it, with what the schema allows and what
# it does not. Fails where an answer is a 5xx that no fault of the server's own is behind, or one that is not declared.
#
#   tests/openapi/run.sh [arguments of schemathesis]      BUILD=build/release, ENVIRONMENT=a folder that is kept, SECONDS_MOST=240
#
# Needs Python 3.11 or later with venv, and the packages of requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/release}
work=$(mktemp -d)
environment=${ENVIRONMENT:-$work/environment}
trap 'kill "$server" 2> /dev/null || true; rm -rf "$work"' EXIT
server=

[ -x "$environment/bin/python" ] || {
    python3 -m venv "$environment"
    "$environment/bin/pip" install -q -r "$here/requirements.txt"
}
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
"$build/longflash" serve --model "$root/demo/model" --port "$port" --ctx 4K --kv-tokens 32K --device cpu --log-file "$work/log" &
server=$!
"$build/longflash" health --url "$url" > /dev/null 2>&1 || for _ in $(seq 100); do
    sleep 0.1
    ! "$build/longflash" health --url "$url" > /dev/null 2>&1 || break
done
python3 -c "import urllib.request; open('$work/openapi.json', 'wb').write(urllib.request.urlopen('$url/openapi.json').read())"
"$environment/bin/openapi-spec-validator" "$work/openapi.json"
# A schema cannot say all that is refused (names of models, templates without tools, what fits), so an answer of 400 to data
# that the schema allows is no failure; all other checks hold.
cd "$work"
"$environment/bin/schemathesis" run "$work/openapi.json" --url "$url" --no-color --seed 1 --checks all \
    --exclude-checks positive_data_acceptance --max-examples 60 --max-time "${SECONDS_MOST:-240}" --continue-on-failure "$@"
kill -0 "$server"
