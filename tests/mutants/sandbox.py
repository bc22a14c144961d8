"""Namespaces in which mutants run: a mutant of code that kills and deletes must not reach this machine.

The process is the first of its own pid namespace, so signals reach only what it started. Everything is read-only but a
copy of the checkout and temporary directories, the network is an own loopback, and /run with the engine's socket is
hidden.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

INSIDE = "DDP_PLAY_MUTANTS_COPY"
EMPTY = ("/tmp", "/dev/shm", "/run")
# Mounts without files of this machine; the rest becomes read-only.
LEFT_ALONE = ("/proc", "/sys", "/dev")


def enter(root: Path, arguments: list[str]) -> int:
    """Run this program again in namespaces of its own, on a copy of the checkout. Returns its exit status."""
    if EMPTY[0] in map(str, root.parents):
        sys.exit(f"mutants: {root} is below {EMPTY[0]}, which the mutants get empty: move the checkout")
    copy = Path(tempfile.mkdtemp(prefix="ddp-play-mutants-"))
    try:
        copy.chmod(root.stat().st_mode & 0o777)  # tests become other users in it
        _copy_checkout(root, copy)
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        spaces = ["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--ipc"]
        command = ["unshare", *as_root, *spaces, sys.executable, "-m", "tests.mutants", *arguments]
        environment = {**os.environ, INSIDE: str(copy), "HOME": "/tmp/home", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=root, env=environment, check=False).returncode
    finally:
        shutil.rmtree(copy)


def _copy_checkout(root: Path, copy: Path) -> None:
    """Every file that git knows or does not ignore, changed ones too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (root / name).exists() or (root / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)


def close_behind(root: Path) -> None:
    """Mount the copy over the checkout, make the rest read-only, and start the loopback."""
    if os.getpid() != 1:
        sys.exit("mutants: this process is not the first of its pid namespace")
    copy = Path(os.environ[INSIDE])
    (copy / ".venv").mkdir()
    _mount("--make-rprivate", "/")
    _mount("--bind", str(root / ".venv"), str(copy / ".venv"))
    _mount("--rbind", str(copy), str(root))
    for target in _mounted():
        inside = target == str(root) or target.startswith(LEFT_ALONE)
        if not inside and _mount("-o", "remount,bind,ro", target, check=False):
            subprocess.run(["umount", "--lazy", target], check=False, capture_output=True)
    for target in EMPTY:
        _mount("-t", "tmpfs", "tmpfs", target)
    Path("/tmp").chmod(0o1777)
    Path(os.environ["HOME"]).mkdir()
    _start_loopback()
    os.chdir(root)
    if os.access("/etc", os.W_OK) or os.access(root.parent, os.W_OK):
        sys.exit("mutants: this machine's files are still writable; nothing was run")


def _mounted() -> list[str]:
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [line.split()[1] for line in lines]


def _mount(*arguments: str, check: bool = True) -> int:
    return subprocess.run(["mount", *arguments], check=check, capture_output=not check).returncode


def _start_loopback() -> None:
    """SIOCSIFFLAGS with IFF_UP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh", b"lo", 1))
