#!/bin/sh
# Opt-in: the container image, built and asked. Needs docker; takes some minutes. DOCKER=podman will do as well.
#
#   examples/docker.sh                        the demo model that is in the image
#   examples/docker.sh /models/my-model       a model of yours
set -eu
cd "$(dirname "$0")/.."
docker=${DOCKER:-docker}
port=${PORT:-8080}
$docker build -t longflash .
set -- ${1:+-v "$1:/models:ro" -e LONGFLASH_MODEL=/models}
id=$($docker run -d --rm --read-only --cap-drop ALL -p "127.0.0.1:$port:8080" "$@" longflash)
trap '$docker stop "$id" >/dev/null' EXIT
for _ in $(seq 300); do
    curl -sf -o /dev/null "http://127.0.0.1:$port/readyz" && break
    sleep 1
done
LONGFLASH_URL="http://127.0.0.1:$port" examples/curl.sh
