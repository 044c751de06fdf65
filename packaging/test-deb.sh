#!/bin/sh
# Builds the package on bare Debian systems and uses it there. Opt-in: needs root, debootstrap and the Debian mirror; some
# five minutes a release on two cores.
#
#   packaging/test-deb.sh [--keep] FOLDER [RELEASE ...]     default: bookworm trixie
#
# In each release the package is built in one system (debootstrap's minimal one and what building needs), then installed
# in another, that has nothing but debootstrap's minimal one, with the packages it depends on. There the main job is run
# as an unprivileged user: a question on the terminal, and a server that curl asks one. FOLDER gets base systems (kept for
# the next time), logs and packages; the systems themselves are removed unless --keep is given.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
keep=
[ "${1:-}" != --keep ] || { keep=1; shift; }
[ $# -ge 1 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- bookworm trixie

say() { printf '== %s: %s (%s s)\n' "$release" "$*" $(($(date +%s) - began)); }
die() { printf 'test-deb: %s: %s\n' "$release" "$*" >&2; exit 1; }
for tool in debootstrap unshare chroot git dpkg-deb; do
    command -v $tool >/dev/null || { echo "no $tool: skipped"; exit 77; }
done
# the list that quickstart.sh installs
libraries=$(sed -n '/read -r module packages/,/^TXT$/{/^[a-z]/{s/^[^ ]* //;p;};}' "$source/quickstart.sh" | tr '\n' ' ')
case $libraries in *libmicrohttpd-dev*) ;; *) echo "no libraries are listed in quickstart.sh"; exit 1 ;; esac
[ "$(id -u)" = 0 ] || { echo "needs root: skipped"; exit 77; }

# in_system ROOT COMMAND: in a mount namespace of its own, so that nothing stays mounted.
in_system() {
    root=$1
    shift
    unshare --mount --fork sh -euc 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" \
        /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        "$@"' "$root" "$@"
}

# unpack NAME: a fresh system from the release's base.
unpack() {
    rm -rf "$folder/$release-$1"
    mkdir "$folder/$release-$1"
    tar -C "$folder/$release-$1" -xf "$folder/$release.tar"
    cp /etc/resolv.conf "$folder/$release-$1/etc/resolv.conf"
}

make_base() {
    [ ! -f "$folder/$release.tar" ] || return 0
    rm -rf "$folder/$release-base"
    debootstrap --variant=minbase "$release" "$folder/$release-base" >"$folder/$release-debootstrap.log" 2>&1 ||
        die "debootstrap failed: see $folder/$release-debootstrap.log"
    tar -C "$folder/$release-base" -cf "$folder/$release.tar.part" .
    mv "$folder/$release.tar.part" "$folder/$release.tar"
    rm -rf "$folder/$release-base"
}

build() {
    unpack build
    mkdir "$folder/$release-build/src"
    # what git knows, as it lies here; not what was built
    git -C "$source" ls-files -z | tar -C "$source" --null --files-from=- -cf - | tar -C "$folder/$release-build/src" -xf -
    commit=$(git -C "$source" describe --always --dirty --abbrev=12 --exclude='*')
    in_system "$folder/$release-build" sh -euc '
        apt-get update -q
        apt-get install -y -q --no-install-recommends cmake dpkg-dev file g++ gcc make pkg-config $1
        cd /src
        export LF_COMMIT=$0
        cmake --preset release -DBUILD_TESTING=OFF -DLF_CUDA=OFF
        cmake --build build/release -j "$(nproc)"
        cd build/release && cpack -G DEB -B /out' "$commit" "$libraries" >"$folder/$release-build.log" 2>&1 ||
        { tail -n 20 "$folder/$release-build.log"; die "the build failed: $folder/$release-build.log"; }
    cp "$folder/$release-build"/out/*.deb "$folder/"
    deb=$(basename "$folder/$release-build"/out/*.deb)
    [ -n "$keep" ] || rm -rf "$folder/$release-build"
}

# The main job, by a user without rights, in a folder without a demo.
cat >"$folder/main-job.sh" <<'TXT'
set -eu
cd /tmp
longflash version
man=/usr/share/man/man1/longflash.1.gz
if command -v man >/dev/null; then man longflash | head -n 3; else gzip -t $man; fi
question='The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.

What is the access code for Marrow Hill?'
expected='The access code for Marrow Hill is 48213.'
[ "$(longflash run "$question" 2>run.log)" = "$expected" ] || { cat run.log; exit 1; }
echo "run: $expected"
longflash serve --port 18090 --ctx 8K >ready.txt 2>serve.log &
server=$!
for _ in $(seq 100); do
    longflash health --url http://127.0.0.1:18090 >/dev/null 2>&1 && break
    kill -0 $server || { cat serve.log; exit 1; }
    sleep 0.1
done
cat ready.txt
body='{"temperature": 0, "messages": [{"role": "user", "content": "The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\nWhat is the access code for Marrow Hill?"}]}'
answer=$(curl -fsS http://127.0.0.1:18090/v1/chat/completions -H 'Content-Type: application/json' -d "$body")
echo "serve: $answer"
case $answer in *"$expected"*) ;; *) exit 1 ;; esac
kill -TERM $server
wait $server
TXT

use() {
    unpack bare
    cp "$folder/$deb" "$folder/main-job.sh" "$folder/$release-bare/tmp/"
    chmod 755 "$folder/$release-bare/tmp/main-job.sh"
    in_system "$folder/$release-bare" sh -euc '
        apt-get update -q >/dev/null
        dpkg-query -f "\${Package}\n" -W | sort >/tmp/before
        apt-get install -y -q --no-install-recommends /tmp/'"$deb"' >/tmp/install.log 2>&1 || { tail /tmp/install.log; exit 1; }
        dpkg-query -f "\${Package}\n" -W | sort >/tmp/behind
        comm -13 /tmp/before /tmp/behind >/tmp/new
        echo "$(wc -l </tmp/new) packages pulled in: $(tr "\n" " " </tmp/new)"
        dpkg-query -f "\${Package} \${Installed-Size} KiB\n" -W $(cat /tmp/new) |
            awk "{ n += \$2; if (/^longflash/) own = \$2 } END { print own / 1024 \" MiB installed, with the others \" n / 1024 \" MiB\" }"
        sed -n "s/^After this operation/after this operation/p" /tmp/install.log
        apt-get install -y -q --no-install-recommends curl >/dev/null 2>&1 # who asks, not what answers
        useradd somebody' || die "it does not install"
    say "installed"
    in_system "$folder/$release-bare" setpriv --reuid=somebody --regid=somebody --clear-groups sh /tmp/main-job.sh ||
        die "the main job failed"
    in_system "$folder/$release-bare" sh -euc '
        apt-get remove -y -q "longflash*" >/dev/null 2>&1
        [ ! -e /usr/bin/longflash ]
        [ ! -d /usr/share/longflash ]
        [ -f /etc/default/longflash ]
        dpkg --purge longflash >/dev/null 2>&1
        [ ! -e /etc/default/longflash ]' || die "something is left of it"
    [ -n "$keep" ] || rm -rf "$folder/$release-bare"
}

for release; do
    began=$(date +%s)
    make_base
    say "base system"
    build
    say "built $deb, $(wc -c <"$folder/$deb") bytes"
    use
    say "used, removed and purged"
done
echo "$# passed, 0 failed"
