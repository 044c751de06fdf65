#!/bin/sh
# Three servers on this machine behind haproxy, which sends what is asked about a document to the one that has it (haproxy.cfg
# says how). Needs haproxy 2.6 (Debian: haproxy) and curl; ends all of them with Ctrl-C, in order.
#
#   examples/replicas/run.sh [OPTION OF serve …] &
#   curl -T my.txt -H 'Content-Type: text/plain' 'localhost:8080/v1/documents/mine?wait=true'
#   curl -i localhost:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": [
#     {"type": "file", "file": {"file_id": "mine"}}, {"type": "text", "text": "Who signed it?"}]}]}'
#
# LONGFLASH is the program (default build/release/longflash), REPLICAS_DIR the folder of the documents and of haproxy's socket,
# PORT the first of four ports (default 8080).
set -eu
here=$(dirname "$0")
program=${LONGFLASH:-build/release/longflash}
folder=${REPLICAS_DIR:-${TMPDIR:-/tmp}/longflash-replicas}
port=${PORT:-8080}
PATH=$PATH:/usr/sbin
command -v haproxy >/dev/null || { echo "$0: haproxy is not installed (Debian: apt-get install haproxy)" >&2; exit 1; }
mkdir -p "$folder"
pids=
trap 'trap - INT TERM EXIT; [ -z "$pids" ] || kill $pids 2>/dev/null; wait' INT TERM EXIT

# On one machine the three share its processors; each takes a third of them.
threads=$(($(nproc) / 3))
[ "$threads" -gt 0 ] || threads=1
for i in 0 1 2; do
    "$program" serve --port $((port + 1 + i)) --threads "$threads" --trusted-proxy 127.0.0.1 \
        --cache-dir "$folder/longflash-$i" --cache-disk 4G "$@" &
    pids="$pids $!"
done
sed "s|127.0.0.1:8080\$|127.0.0.1:$port|; s|127.0.0.1:8081|127.0.0.1:$((port + 1))|; s|127.0.0.1:8082|127.0.0.1:$((port + 2))|
    s|127.0.0.1:8083|127.0.0.1:$((port + 3))|; s|/run/haproxy/longflash.sock|$folder/haproxy.sock|" "$here/haproxy.cfg" >"$folder/haproxy.cfg"
haproxy -f "$folder/haproxy.cfg" &
pids="$pids $!"
until curl -fsS -o "$folder/readyz" "http://127.0.0.1:$port/readyz" 2>/dev/null; do
    kill -0 $pids 2>/dev/null || { echo "$0: one of the four has ended" >&2; exit 1; }
    sleep 0.5
done
echo "ready: http://127.0.0.1:$port"
wait
