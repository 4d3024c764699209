#!/bin/sh
# confine.sh ROOT DATA CONFIG UID GID COMMAND...
# Run a command in an image's root as an orchestrator does: as a plain user, without capabilities,
# with a read-only root; only /data and /tmp are writable. Run it in new mount and process
# namespaces (unshare --mount --pid --fork).
set -eu
root=$1 data=$2 config=$3 uid=$4 gid=$5
shift 5

mount --make-rprivate /
mount --bind "$root" "$root"
mount -t tmpfs -o mode=755,nosuid,noexec devices "$root/dev"
for device in null zero random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,ro,nosuid,noexec "$root/dev"
mount -t proc -o nosuid,nodev,noexec processes "$root/proc"
mount -t tmpfs -o mode=1777,nosuid,nodev,noexec temporary "$root/tmp"
mount --bind "$data" "$root/data"
mount --bind "$config" "$root/etc/kaboost"
mount -o remount,bind,ro "$root/etc/kaboost"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid "$uid" --regid "$gid" --clear-groups \
    --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
