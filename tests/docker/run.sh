#!/bin/sh
# Builds the container image and runs it, without an image registry: the base is made by debootstrap. Opt-in, needs
# root, buildah, debootstrap and the Debian mirror; about five minutes.
#
#   tests/docker/run.sh [FOLDER]     FOLDER (default build/docker) keeps the base for the next time
#
# The image is built by its own Dockerfile. It is then run the way `docker run --read-only --cap-drop ALL` would: on a
# root file system mounted read-only, as the image's user, without capabilities.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-build/docker}
suite=bookworm
port=${LF_DOCKER_PORT:-18080}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

say() { printf '== %s\n' "$*"; }
die() { printf 'tests/docker: %s\n' "$*" >&2; exit 1; }
for tool in buildah debootstrap unshare setpriv curl python3; do
    command -v $tool >/dev/null || { echo "no $tool: skipped"; exit 77; }
done

container=
server=
cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
}
trap cleanup EXIT

say "base image"
if [ ! -f "$folder/base.tar" ]; then
    rm -rf "$folder/rootfs"
    debootstrap --variant=minbase $suite "$folder/rootfs" >"$folder/debootstrap.log" 2>&1 ||
        die "debootstrap failed: see $folder/debootstrap.log"
    # What Debian's slim images leave out too.
    rm -rf "$folder/rootfs/usr/share/doc" "$folder/rootfs/usr/share/man" "$folder/rootfs/usr/share/info" \
        "$folder/rootfs/usr/share/locale" "$folder/rootfs/var/cache/apt/archives" "$folder/rootfs/var/lib/apt/lists"
    mkdir -p "$folder/rootfs/var/cache/apt/archives/partial" "$folder/rootfs/var/lib/apt/lists/partial"
    tar -C "$folder/rootfs" -cf "$folder/base.tar" .
    rm -rf "$folder/rootfs"
fi
mkdir -p "$folder/base"
ln -f "$folder/base.tar" "$folder/base/rootfs.tar"
printf 'FROM scratch\nADD rootfs.tar /\nCMD ["sh"]\n' >"$folder/base/Dockerfile"
buildah bud --pull-never -q --format docker -t longflash-base:$suite "$folder/base" >/dev/null

say "image"
buildah bud --pull-never --format docker -t longflash:test --build-arg BASE=localhost/longflash-base:$suite . >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log"
    die "the build failed"
}

say "size"
container=$(buildah from --pull-never longflash:test)
root=$(buildah mount "$container")
all=$(du -sm --apparent-size "$root" | cut -f1)
model=$(du -sm --apparent-size "$root/opt/longflash/demo" | cut -f1)
base=$(du -sm --apparent-size "$folder/base.tar" | cut -f1)
echo "image $all MiB: base $base MiB, model $model MiB, without the model $((all - model)) MiB"
[ $((all - model)) -le 150 ] || die "the image without the model is above 150 MiB"

say "configuration"
config=$(buildah inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}} {{.Docker.Config.Healthcheck}}' longflash:test)
echo "$config"
case "$config" in
"65532:65532 [longflash] [serve]"*health*) ;;
*) die "expected user 65532, entrypoint longflash, command serve and a health check" ;;
esac

say "run"
# chroot needs a capability, so it comes before setpriv, which is then the image's own.
cat >"$folder/inside.sh" <<TXT
set -eu
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --bounding-set=-all --inh-caps=-all --no-new-privs --reuid=65532 --regid=65532 \
    --clear-groups /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin LONGFLASH_MODEL=/opt/longflash/demo \
    LONGFLASH_HOST=0.0.0.0 LONGFLASH_INSECURE_NO_AUTH=on longflash serve --port $port
TXT
unshare --mount sh "$folder/inside.sh" >"$folder/server.out" 2>"$folder/server.log" &
server=$!
for _ in $(seq 100); do
    curl -fs "http://127.0.0.1:$port/readyz" >/dev/null 2>&1 && break
    kill -0 $server 2>/dev/null || { cat "$folder/server.log"; die "the server did not start"; }
    sleep 0.1
done
cat "$folder/server.out"

say "health check, as the image has it"
nsenter --target $server --mount chroot "$root" /usr/local/bin/longflash health --url "http://127.0.0.1:$port"

say "a question"
answer=$(curl -fs "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d '{"temperature":0,
  "messages":[{"role":"user","content":"The access code for Marrow Hill is 48213. Anna Vell lives in Dorrun.\n\nWhat is the access code for Marrow Hill?"}]}' |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["choices"][0]["message"]["content"])')
echo "$answer"
[ "$answer" = "The access code for Marrow Hill is 48213." ] || die "expected: The access code for Marrow Hill is 48213."

say "stop"
kill -TERM $server
rc=0
wait $server || rc=$?
server=
[ $rc = 0 ] || die "expected exit status 0 after SIGTERM, got $rc"
echo "1 passed, 0 failed"
