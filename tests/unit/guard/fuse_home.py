"""Runs a command in a mount namespace with an empty FUSE file system: `fuse_home.py DIRECTORY COMMAND...`.

/var/tmp is an empty directory in memory there. Needs root and /dev/fuse. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
LOOKUP, FORGET, GETATTR, INIT, DESTROY, BATCH_FORGET = 1, 2, 3, 26, 38, 42
ENOENT, ENOSYS = -2, -38
HEADER = struct.Struct("<IIQQIIII")
S_IFDIR_1777 = 0o041777
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError."""
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}")


def serve(fuse: int, on_lookup: Callable[[], None] | None = None) -> None:
    """Answer the kernel: a root directory for everybody, and nothing in it.

    `on_lookup`: called at every lookup of a name, which then gets no answer; whoever looks cannot be killed.
    """
    attributes = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, S_IFDIR_1777, 2, 0, 0, 0, 4096, 0)
    answers = {
        INIT: struct.pack("<4I2H10I", 7, 31, 65536, 0, 12, 9, 65536, 1, *[0] * 8),
        GETATTR: bytes(16) + attributes,
    }
    while True:
        try:
            _, code, unique, *_ = HEADER.unpack_from(os.read(fuse, 1 << 18))
        except OSError:  # unmounted
            return
        if code in (FORGET, BATCH_FORGET):
            continue
        if code == LOOKUP and on_lookup is not None:
            on_lookup()
            continue
        body = answers.get(code, b"")
        error = 0 if body or code == DESTROY else ENOENT if code == LOOKUP else ENOSYS
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def mount_fuse(directory: str) -> int:
    """Mount FUSE in a mount namespace of this process; the descriptor to `serve`. Raises OSError."""
    if LIBC.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("", "/", "", MS_REC | MS_PRIVATE)
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fuse},rootmode=41777,user_id=0,group_id=0,allow_other"
    mount("nfs1:/home", directory, "fuse.sshfs", 0, options)
    return fuse


def main() -> int:
    """Mount, run the command, and return its exit status; the mounts end with the namespace."""
    directory, *command = sys.argv[1:]
    fuse = mount_fuse(directory)
    mount("tmpfs", "/var/tmp", "tmpfs", 0, "mode=1777")
    threading.Thread(target=serve, args=(fuse,), daemon=True).start()
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
