#!/bin/sh
# A load test: every number of clients with every length of prompt. Prints a table and writes it as CSV.
#
#   examples/load.sh                          1, 4 and 16 clients, prompts of 1K and 8K tokens, into load.csv
#   examples/load.sh --concurrency 1,4 --lengths 1K --csv small.csv        what stands here comes last, and wins
#
# LONGFLASH is the program (default build/release/longflash), LONGFLASH_URL the server.
set -eu
exec "${LONGFLASH:-build/release/longflash}" load --concurrency 1,4,16 --lengths 1K,8K --output-tokens 64 --csv load.csv "$@"
