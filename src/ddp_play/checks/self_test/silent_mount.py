"""A mount whose server never answers, as that of a dead NFS server: `python3 silent_mount.py DIRECTORY`, as root.

The kernel's FUSE client waits as an NFS client does. When the process ends, the mount is removed. It is copied to a
host of a lab and runs there alone, so it has the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import sys

DEVICE, DEVICE_NUMBER = "/dev/fuse", os.makedev(10, 229)  # Documentation/admin-guide/devices.txt
LAZILY = 2  # MNT_DETACH


def options(fd: int) -> str:
    """Mount options of a FUSE file system whose server has this descriptor."""
    return f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other"


def main(directory: str) -> None:
    """Mount, and wait for a signal without a single answer."""
    if not os.path.exists(DEVICE):  # noqa: PTH110 - a few imports less where it runs
        os.mknod(DEVICE, stat.S_IFCHR | 0o600, DEVICE_NUMBER)
    fd = os.open(DEVICE, os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"silent", directory.encode(), b"fuse", 0, options(fd).encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
    finally:
        libc.umount2(directory.encode(), LAZILY)
        os.close(fd)  # ends all that still waits


if __name__ == "__main__":
    main(sys.argv[1])
