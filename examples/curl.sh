#!/bin/sh
# The same question in the three ways an answer can come: whole, streamed, and in Anthropic's form. Needs curl and a server:
#
#   build/release/longflash serve --config configs/demo.json &
#   examples/curl.sh
#
# LONGFLASH_URL is the server (default http://127.0.0.1:8080), LONGFLASH_API_KEYS its keys, where it has any.
set -eu
url=${LONGFLASH_URL:-http://127.0.0.1:8080}
key=${LONGFLASH_API_KEYS:-none}
key=${key%%,*}

ask() {
    curl -sS --fail-with-body -N "$url$1" -H "Authorization: Bearer $key" ${2:+-H 'Content-Type: application/json' -d "$2"}
}

question='The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\nWhat is the access code for Marrow Hill?'
messages="\"messages\": [{\"role\": \"user\", \"content\": \"$question\"}], \"temperature\": 0"

model=$(ask /v1/models | sed -n 's/.*"data":\[{"id":"\([^"]*\)".*/\1/p')

echo "== whole"
ask /v1/chat/completions "{$messages}"
echo
echo "== streamed: events as they come, the last with the number of tokens"
ask /v1/chat/completions "{$messages, \"stream\": true, \"stream_options\": {\"include_usage\": true}}"
echo "== Anthropic's form"
ask /v1/messages "{\"model\": \"$model\", \"max_tokens\": 64, $messages}"
echo
