#!/bin/sh
# A text is read under a name, asked about, and the conversation goes on from the answer, which the server has kept. Needs curl
# and a server:
#
#   build/release/longflash serve --config configs/demo.json &
#   examples/conversation.sh my.txt "Who signed it?" "And when?"
#
# LONGFLASH_URL is the server (default http://127.0.0.1:8080), LONGFLASH_API_KEYS its keys, where it has any. The questions stand
# in JSON as they are: no quotation marks in them.
set -eu
url=${LONGFLASH_URL:-http://127.0.0.1:8080}
key=${LONGFLASH_API_KEYS:-none}
key=${key%%,*}
[ $# -eq 3 ] || { echo "usage: $0 FILE QUESTION QUESTION" >&2; exit 2; }

call() { # method, path, further arguments of curl
    method=$1 path=$2
    shift 2
    curl -sS --fail-with-body -N -X "$method" "$url$path" -H "Authorization: Bearer $key" "$@"
}

echo "== reading"
call PUT '/v1/documents/my-text?wait=true' -T "$1" -H 'Content-Type: text/plain'
echo "== the first question"
answer=$(call POST /v1/responses -H 'Content-Type: application/json' -d '{"temperature": 0, "input": [{"role": "user",
    "content": [{"type": "input_file", "file_id": "my-text"}, {"type": "input_text", "text": "'"$2"'"}]}]}')
echo "$answer"
id=$(echo "$answer" | sed 's/^{"id":"\([^"]*\)".*/\1/')
echo "== the second question"
call POST /v1/responses -H 'Content-Type: application/json' \
    -d '{"temperature": 0, "previous_response_id": "'"$id"'", "input": "'"$3"'"}'
echo
call DELETE "/v1/responses/$id"
echo
call DELETE /v1/documents/my-text
echo
