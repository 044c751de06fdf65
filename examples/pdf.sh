#!/bin/sh
# Questions about a PDF: its text by pdftotext (package poppler-utils), read once, then one question after the other.
#
#   examples/pdf.sh report.pdf "Who signed it?" "When does it end?"
set -eu
[ $# -ge 2 ] || { echo "usage: pdf.sh FILE.pdf QUESTION..." >&2; exit 2; }
command -v pdftotext >/dev/null || { echo "pdf.sh: pdftotext is missing: apt-get install poppler-utils" >&2; exit 2; }
here=$(dirname "$0")
text=$(mktemp)
trap 'rm -f "$text"' EXIT
pdftotext -enc UTF-8 "$1" "$text"
shift
for question in "$@"; do
    echo "$question"
    python3 "$here/document.py" --document "$text" --question "$question"
done
