#!/bin/sh
# From a fresh machine to an answer about a long document, and to passing tests. See --help.
set -eu
cd "$(dirname "$0")"

usage() {
    cat <<'TXT'
./quickstart.sh [--once] [--full] [--port N]
    Installs what is missing (Debian 12/13, Ubuntu 24.04: apt, with sudo where needed), builds, starts the server on
    the demo model, asks the questions of demo/questions.json about demo/document.txt (32K tokens), and leaves the
    server running.
      --once     stops the server at the end
      --full     a document of 128K tokens, made for the occasion
      --port N   the port to listen on (default 8080)

./quickstart.sh test [ctest options]
    Builds and runs all tests; -L unit runs one lane (unit, parity, golden, sim, fuzz, e2e, lint, gpu).

./quickstart.sh --help
    This page.
TXT
}

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# The packages behind what is not there; nothing where all is.
missing_packages() {
    command -v gcc >/dev/null || echo gcc
    command -v g++ >/dev/null || echo g++
    command -v make >/dev/null || echo make
    command -v cmake >/dev/null || echo cmake
    command -v python3 >/dev/null || echo python3
    command -v curl >/dev/null || echo curl
    command -v pkg-config >/dev/null || echo pkg-config
    [ -e /usr/include/stdlib.h ] || echo libc6-dev
    # On Debian 13 sentencepiece.pc asks for protobuf-lite, which its own package does not bring.
    while read -r module packages; do
        pkg-config --exists "$module" 2>/dev/null || echo "$packages"
    done <<'TXT'
libmicrohttpd libmicrohttpd-dev
nettle nettle-dev
sentencepiece libsentencepiece-dev libprotobuf-dev
libpcre2-8 libpcre2-dev
TXT
    [ "$1" != test ] || pkg-config --exists cmocka 2>/dev/null || echo libcmocka-dev
}

install_missing() {
    packages=$(missing_packages "$1" | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null || die "these are missing, and there is no apt-get to install them: $packages"
    sudo=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "these are missing; install them as root: apt-get install $packages"
        sudo=sudo
    fi
    say "Installing: $packages"
    $sudo apt-get update -q >&2
    # shellcheck disable=SC2086 # a list of words
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2
}

# build TARGET [cmake options]: the log is shown only where it went wrong.
build() {
    target=$1
    shift
    mkdir -p build/release
    log=build/release/quickstart-build.log
    say "Building (log: $log)"
    { cmake --preset release "$@" && cmake --build build/release --target "$target" -j "$(nproc)"; } >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        die "the build failed"
    }
}

run_tests() {
    install_missing test
    build all -DBUILD_TESTING=ON ${LF_CMAKE_OPTIONS:-}
    grep -q 'CMOCKA_FOUND:INTERNAL=1' build/release/CMakeCache.txt || die "cmocka was not found: there would be no tests"
    exec ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
}

# ---- the demo ----

state=build/quickstart

stop_server() {
    [ -f $state/pid ] || return 0
    pid=$(cat $state/pid)
    rm -f $state/pid
    case "$(readlink "/proc/$pid/exe" 2>/dev/null || true)" in
    *"/longflash"*) kill -TERM "$pid" 2>/dev/null || return 0 ;;
    *) return 0 ;;
    esac
    for _ in $(seq 350); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.1
    done
    die "the server (process $pid) does not stop"
}

start_server() {
    mkdir -p $state
    stop_server
    : >$state/server.out
    setsid build/release/longflash serve --config configs/demo.json --port "$port" >$state/server.out 2>$state/server.log &
    pid=$!
    echo $pid >$state/pid
    for _ in $(seq 600); do
        url=$(sed -n 's/^ready in .*: \(http:[^ ]*\) .*/\1/p' $state/server.out)
        [ -z "$url" ] || return 0
        kill -0 $pid 2>/dev/null || {
            cat $state/server.log >&2
            rm -f $state/pid
            die "the server did not start (another --port may help)"
        }
        sleep 0.1
    done
    die "the server is not ready after a minute: see $state/server.log"
}

demo() {
    once= full= port=8080
    while [ $# -gt 0 ]; do
        case "$1" in
        -h | --help)
            usage
            exit 0
            ;;
        --once) once=1 ;;
        --full) full=1 ;;
        --port)
            [ $# -gt 1 ] || die "--port: expected a number behind it"
            port=$2
            shift
            ;;
        *) die "$1: no such option; see --help" ;;
        esac
        shift
    done
    install_missing build
    build longflash
    documents=demo
    if [ -n "$full" ]; then
        documents=build/full
        say "Making a document of 128K tokens"
        python3 demo/make_document.py --tokens 128000 --out $documents
    fi
    [ -z "$once" ] || trap 'stop_server; exit 130' INT TERM
    start_server
    cat $state/server.out
    say "Asking about $documents/document.txt ($(wc -c <$documents/document.txt) bytes); the first question reads it"
    rc=0
    python3 demo/ask.py --url "$url" --document $documents/document.txt --questions $documents/questions.json \
        --min-right "$([ -n "$full" ] && echo 1 || echo 10)" || rc=$?
    if [ -n "$once" ]; then
        stop_server
        exit $rc
    fi
    say "The server goes on at $url (process $(cat $state/pid); stop it with: kill $(cat $state/pid)). Ask it more:"
    cat <<TXT
  curl $url/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\nWhat is the access code for Marrow Hill?"}],"temperature":0}'
  python3 demo/ask.py --url $url --document $documents/document.txt --question 'What is the capital of Laigburd?'
TXT
    exit $rc
}

case "${1:-}" in
help) usage ;;
test)
    shift
    run_tests "$@"
    ;;
*) demo "$@" ;;
esac
