#!/bin/sh
# First process of a lab host: undoes what an unprivileged container hides, so that systemd and a nested engine work.
set -u

# The engine masks parts of /proc with mounts; sysctl and nested containers need what is under them.
# (Its option systempaths=unconfined exists on the command line only, not in the API.)
# Lazily: while the engine starts a program in the container, that has files of /proc/sys open, and the mount is busy.
awk '$2 ~ "^/proc/." || $2 ~ "^/sys/firmware" { print $2 }' /proc/self/mounts | sort -r | while read -r mountpoint; do
    umount --lazy "$mountpoint"
done

# The cgroup mounts come read-only; a plain remount answers "busy", a bind remount does not.
awk '$2 ~ "^/sys/fs/cgroup" { print $2 }' /proc/self/mounts | while read -r mountpoint; do
    mount -o remount,bind,rw "$mountpoint"
done

exec /lib/systemd/systemd
