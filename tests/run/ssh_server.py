"""An OpenSSH server on loopback, in a mount namespace of its own with users, homes and sudoers of its own.

Needs root, because a server that is not root logs in one user only. Nothing of the machine changes: the files below
/etc are bound over the machine's inside the namespace, and homes are mounts there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.endings import kill_each

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = "/usr/sbin/sshd"
FIRST_UID = 47101

# Runs in the namespace: $1 is the directory with our files.
NAMESPACE = """set -eu
for name in passwd group shadow; do mount --bind "$1/$name" "/etc/$name"; done
mount -t tmpfs -o mode=755 tmpfs /home
if [ -d /etc/sudoers.d ]; then mount --bind "$1/sudoers" /etc/sudoers; fi
install -m 644 "$1/key.pub" /home/authorized_keys
mkdir -p /run/sshd
install -d -m 1777 /home/apart
. "$1/homes.sh"
exec {sshd} -D -f "$1/sshd_config" -E "$1/log"
"""


@dataclass(frozen=True)
class User:
    """Somebody who can log in. `home` is a script that runs in the new, empty home before it is used."""

    name: str
    shell: str
    files: dict[str, str] = field(default_factory=dict)
    mount: str = ""  # options of a remount of the home: noexec, ro
    password: str = ""
    sudoers: str = ""
    aging: str = "19000:0:99999:7::"  # the last six fields of shadow(5)


@dataclass
class SshServer:
    """A running server."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """What the server wrote."""
        return (self.directory / "log").read_text() if (self.directory / "log").exists() else ""

    def host(self, user: str, *, args: str = "", **more: Any) -> dict[str, Any]:
        """Inventory variables of a host that is this server."""
        known = f"-o UserKnownHostsFile={self.directory}/known_hosts -o IdentitiesOnly=yes"
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": user,
            "ansible_ssh_private_key_file": str(self.directory / "key"),
            "ansible_ssh_common_args": f"{known} {args}".strip(),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ddp_python": "/usr/bin/python3",
            "ddp_slots": 50,  # others on this machine may hold some
            **more,
        }

    def cut(self) -> int:
        """End every connection that is open, as a network failure does; how many there were."""
        monitors = _children(self.process.pid)
        sessions = [session for pid in monitors for session in _children(pid)]
        kill_each((*sessions, *monitors))
        return len(sessions)

    def reload(self) -> None:
        """Read the files of settings again, as `systemctl reload ssh` does."""
        os.kill(self.process.pid, signal.SIGHUP)
        _wait_for(self)

    def left_behind(self, user: str) -> list[str]:
        """Files of runs in the user's home."""
        runs = Path(f"/proc/{self.process.pid}/root/home/{user}/.local/state/ddp-play/host/runs")
        return sorted(str(path) for path in runs.rglob("*")) if runs.exists() else []

    def close(self) -> None:
        """End the server and all that was started through it: the namespace's mounts go with the last process."""
        namespace = Path(f"/proc/{self.process.pid}/ns/mnt").readlink()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns" / "mnt").readlink() == namespace:
                    os.kill(int(entry.name), signal.SIGKILL)
        self.process.wait()


def _children(pid: int) -> list[int]:
    """Processes of sshd that this one of sshd has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")
            if entry.name.isdigit() and int(fields[2].split()[1]) == pid and "(sshd" in fields[0]:
                found.append(int(entry.name))
    return found


def why_not() -> str:
    """Why no such server can run here; empty where it can."""
    if os.geteuid() != 0:
        return "only root may have an SSH server with users of its own"
    missing = [name for name in ("ssh", "ssh-keygen", "sudo", "unshare", "openssl") if not shutil.which(name)]
    if not Path(SSHD).exists():
        missing.append("openssh-server")
    if missing:
        return f"not installed: {', '.join(missing)}"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else f"no mount namespaces: {done.stderr.decode().strip()}"


def start(directory: Path, users: list[User], settings: str = "", script: str = "") -> SshServer:
    """Start a server; returns when it answers.

    `settings`: lines of its sshd_config that replace ours. `script` runs in its namespace after the homes exist.
    """
    directory.mkdir(parents=True)
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    _write_users(directory, users)
    with (directory / "homes.sh").open("a") as homes:
        homes.write(script)
    public = (directory / "host_key.pub").read_text().split()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    general, match, of_users = settings.partition("Match ")
    (directory / "sshd_config").write_text(
        f"{general}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host_key\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile /home/authorized_keys\nStrictModes no\nUseDNS no\n{match}{of_users}\n"
    )
    script = NAMESPACE.format(sshd=SSHD)
    command = ["unshare", "-m", "--propagation", "private", "/bin/sh", "-c", script, "sh", str(directory)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)
    made = SshServer(directory, port, process)
    _wait_for(made)
    return made


@contextlib.contextmanager
def running(directory: Path, users: list[User], settings: str = "") -> Iterator[SshServer]:
    """A server for a fixture; the test is skipped where none can run."""
    if reason := why_not():
        pytest.skip(reason)
    server = start(directory, users, settings)
    try:
        yield server
    finally:
        server.close()


def _wait_for(server: SshServer) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=5) as there:
            if there.recv(16).startswith(b"SSH-"):
                return
        time.sleep(0.05)
    raise AssertionError(f"no answer from the SSH server: {server.log}")


def _write_users(directory: Path, users: list[User]) -> None:
    """The files of /etc, and the script that makes the homes."""
    passwd, shadow = Path("/etc/passwd").read_text(), Path("/etc/shadow").read_text()
    group, homes, sudoers = Path("/etc/group").read_text(), "", "root ALL=(ALL:ALL) ALL\n"
    for uid, user in enumerate(users, FIRST_UID):
        home = f"/home/{user.name}"
        passwd += f"{user.name}:x:{uid}:{uid}::{home}:{user.shell}\n"
        group += f"{user.name}:x:{uid}:\n"
        shadow += f"{user.name}:{_hash(user.password)}:{user.aging}:\n"
        homes += f"mkdir -p {home}\n"
        if user.mount:
            homes += f"mount -t tmpfs tmpfs {home}\n"
        for name, text in user.files.items():
            kept = directory / f"{user.name}{name.replace('/', '_')}"
            kept.write_text(text)
            homes += f"install -D {kept} {home}/{name}\n"
        homes += f"chown -R {uid}:{uid} {home}\nchmod 700 {home}\n"
        if user.mount:
            homes += f"mount -o remount,{user.mount} {home}\n"
        sudoers += f"{user.sudoers}\n"
    for name, text in (("passwd", passwd), ("group", group), ("shadow", shadow), ("homes.sh", homes)):
        (directory / name).write_text(text)
    (directory / "sudoers").write_text(sudoers)
    (directory / "sudoers").chmod(0o440)


def _hash(password: str) -> str:
    if not password:
        return "*"
    done = subprocess.run(["openssl", "passwd", "-6", password], capture_output=True, text=True, check=True)
    return done.stdout.strip()
