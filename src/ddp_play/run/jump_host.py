"""One shared SSH connection to a jump host, by a ProxyCommand: `jump_host.py CONTROL_PATH HOST PORT SSH_WORDS...`.

OpenSSH opens a connection to the jump host for every host behind it, all at once, and the jump host's MaxStartups drops
some. Here the first process opens a master connection, the others wait for it and then use it. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# After the last use; the connection lasts as long as anything uses it.
PERSIST_S = 60
# A jump host that drops connections (MaxStartups) or is restarting.
TRIES = 5
RETRY_S = 1.0
DROPPED = ("kex_exchange_identification", "Connection reset", "Connection closed", "Connection refused")
CONFIG_TIMEOUT_S = 10.0
LONGEST_CONTROL = 107 - 17  # ssh first makes the socket under a name with 17 characters more
FORWARDED = ("%h:%p", "[%h]:%p")


def shared_proxy_command(ssh: list[str], directory: Path) -> str:
    """The ProxyCommand that goes through a shared connection; empty where ssh uses no jump host, or one of its own.

    `ssh`: ssh's command line, up to the host's name. `directory`: for control sockets, of this user alone.
    """
    words = _jump_words(ssh, _settings(ssh))
    if not words or _settings(words).get("controlpath", "none") != "none":
        return ""  # the user shares the connection already, perhaps after a login with a second factor
    control = str(directory / ("j" + hashlib.sha256("\0".join(words).encode()).hexdigest()[:9]))
    if len(os.fsencode(control)) > LONGEST_CONTROL:
        return ""
    start = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), control]
    return f"{_escaped(start)} %h %p {_escaped(words)}"


def _escaped(words: list[str]) -> str:
    return shlex.join(words).replace("%", "%%")


def _settings(ssh: list[str]) -> dict[str, str]:
    """Effective configuration of ssh for these arguments, from `ssh -G`."""
    try:
        done = subprocess.run(
            [ssh[0], "-G", *ssh[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=CONFIG_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def _jump_words(ssh: list[str], settings: dict[str, str]) -> list[str]:
    """ssh's command line to the jump host; empty where there is none, or where the proxy is another program."""
    hops = settings.get("proxyjump", "none")
    if hops != "none":
        *before, last = hops.split(",")
        config = [word for at in range(1, len(ssh) - 1) if ssh[at] == "-F" for word in ssh[at : at + 2]]
        through = ["-J", ",".join(before)] if before else []
        return [ssh[0], *config, *through, last if "://" in last else f"ssh://{last}"]
    words = shlex.split(settings.get("proxycommand", "none"))
    words = words[1:] if words[:1] == ["exec"] else words
    if not words or Path(words[0]).name != "ssh" or "-W" not in words:
        return []
    at = words.index("-W")
    rest = words[:at] + words[at + 2 :]
    own = any(word.startswith("-S") or "controlpath" in word.lower() for word in rest)
    return (
        rest if words[at + 1 : at + 2] and words[at + 1] in FORWARDED and not own and "%" not in "".join(rest) else []
    )


def open_shared(control: str, ssh: list[str]) -> str:
    """Open the shared connection if there is none; one process at a time. Returns why it cannot be opened, or empty."""
    began = time.time()
    failed = Path(control + ".failed")
    with Path(control + ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_open(control, ssh):
            return ""
        if (
            failed.exists() and failed.stat().st_mtime > began
        ):  # another process failed while this one waited for the lock
            return failed.read_text(encoding="utf-8")
        problem = _open_master(control, ssh)
        failed.unlink(missing_ok=True)
        if problem:
            failed.write_text(problem, encoding="utf-8")
        return problem


def _is_open(control: str, ssh: list[str]) -> bool:
    command = [ssh[0], "-S", control, "-O", "check", *ssh[1:]]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _open_master(control: str, ssh: list[str]) -> str:
    """Start the master connection in the background. Returns the output of ssh if that fails."""
    alive = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
    master = ["-S", control, "-o", "ControlMaster=yes", "-o", f"ControlPersist={PERSIST_S}", *alive, "-f", "-N"]
    problem = ""
    for number in range(1, TRIES + 1):
        with tempfile.TemporaryFile() as words:  # a pipe would stay open in the background process
            done = subprocess.run(
                [ssh[0], *master, *ssh[1:]],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=words, check=False,
            )  # fmt: skip
            words.seek(0)
            problem = words.read().decode("utf-8", "replace").strip()
        if done.returncode == 0:
            return ""
        if not any(text in problem for text in DROPPED):
            break
        time.sleep(number * RETRY_S)
    return problem or f"ssh ended with exit code {done.returncode}"


def main() -> None:
    """Become ssh's forwarding through the shared connection."""
    control, host, port, *ssh = sys.argv[1:]
    problem = open_shared(control, ssh)
    if problem:
        sys.exit(f"jump host {ssh[-1]}: {problem}")
    target = f"[{host}]:{port}"
    os.execvp(ssh[0], [ssh[0], "-S", control, "-o", "ControlMaster=no", "-W", target, *ssh[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
