#!/bin/sh
# Build the image without a Docker engine, start it with minimal rights and test it: `make image`.
# `make image BASE=...` builds on another base image.
set -eu
cd "$(dirname "$0")/../.."

BASE=${BASE:-$(sed -n 's/^ARG BASE=//p' Dockerfile)}
STAND_IN=localhost/kaboost-base:bookworm
IMAGE=localhost/kaboost:latest
store=${XDG_CACHE_HOME:-$HOME/.cache}/kaboost/images
python=${PYTHON:-.venv/bin/python}
scratch=$(mktemp -d)

stop() {
    echo "kaboost: $1" >&2
    exit 1
}

end() {
    [ -z "${container:-}" ] || images rm "$container" >/dev/null
    [ -z "${base:-}" ] || images rm "$base" >/dev/null
    rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM

# A separate store: vfs in the user's store would conflict with the driver used there.
images() {
    buildah --root "$store" --runroot "$scratch/run" --storage-driver vfs "$@"
}

tools() {
    [ "$(id -u)" -eq 0 ] || stop "mounting an image's root takes root: run sudo make image"
    missing=
    for tool in buildah debootstrap unshare nsenter chroot; do
        command -v $tool >/dev/null || missing="$missing $tool"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null ||
        stop "missing:$missing; install buildah, debootstrap and util-linux on a Debian or Ubuntu, or use docker build ."
    echo "kaboost: installing buildah and debootstrap with apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends buildah debootstrap util-linux >/dev/null
}

# If base images cannot be pulled: the same Debian with Debian's Python, from packages.
stand_in() {
    echo "kaboost: making a stand-in for $BASE from Debian's packages"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        bookworm "$scratch/root" >"$scratch/debootstrap.log" ||
        { tail -n 20 "$scratch/debootstrap.log" >&2; stop "debootstrap failed"; }
    rm -rf "$scratch"/root/var/lib/apt/lists/* "$scratch"/root/var/cache/apt/*
    tar -C "$scratch/root" -cf "$scratch/root.tar" .
    rm -rf "$scratch/root"
    empty=$(images from scratch)
    images add -q "$empty" "$scratch/root.tar" / >/dev/null
    images commit -q --rm "$empty" "$STAND_IN" >/dev/null
    rm "$scratch/root.tar"
}

find_base() {
    case $BASE in
    */*) ;;
    *) BASE=docker.io/library/$BASE ;;
    esac
    images inspect --type image "$BASE" >/dev/null 2>&1 && return
    timeout 300 buildah --root "$store" --runroot "$scratch/run" --storage-driver vfs \
        pull -q "$BASE" >/dev/null 2>"$scratch/pull.log" && return
    echo "kaboost: $BASE cannot be pulled: $(tail -n 1 "$scratch/pull.log")"
    images inspect --type image "$STAND_IN" >/dev/null 2>&1 || stand_in
    BASE=$STAND_IN
}

# pip in the build uses the index of this machine; nothing of this remains in the image.
build() {
    set -- --build-arg "BASE=$BASE"
    [ ! -f /etc/pip.conf ] || set -- "$@" --secret id=pip,src=/etc/pip.conf
    certificate=${PIP_CERT:-$(sed -n 's/^ *cert *= *//p' /etc/pip.conf 2>/dev/null || true)}
    [ -z "$certificate" ] || set -- "$@" --secret "id=certificate,src=$certificate" \
        --build-arg PIP_CERT=/run/secrets/certificate
    images bud -q --format docker --isolation chroot "$@" -t "$IMAGE" . >"$scratch/build.log" 2>&1 ||
        { tail -n 40 "$scratch/build.log" >&2; stop "the build failed"; }
    images rmi --prune >/dev/null 2>&1 || true # the previous image of this name
}

tools
mkdir -p "$store"
find_base
echo "kaboost: building $IMAGE on $BASE"
began=$(date +%s)
build
echo "kaboost: built in $(($(date +%s) - began)) s"
base=$(images from "$BASE")
container=$(images from "$IMAGE")
images inspect --type image "$IMAGE" >"$scratch/image.json"
"$python" deploy/image/proof.py --image "$scratch/image.json" \
    --root "$(images mount "$container")" --base "$(images mount "$base")"
