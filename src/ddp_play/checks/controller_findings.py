"""Findings about the controller, from its facts. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.default_settings import LONGEST_CONTROL_DIR
from ddp_play.checks.finding import Finding, Status

if TYPE_CHECKING:
    from ddp_play.checks.controller_facts import ControllerFacts, Directory, Package

OK, WARN, FAIL, UNCHECKED = Status.OK, Status.WARN, Status.FAIL, Status.UNCHECKED
# A bundle without artifacts is below 1 MiB; logs and checkpoints come on top.
LEAST_FREE_MIB, USUAL_FREE_MIB = 100, 1024
LEAST_FREE_FILES = 1000
# A run keeps three descriptors per host, and its Ansible starts up to 100 processes at a time.
LEAST_FILES, LEAST_PROCESSES = 1024, 512
CLOCK_SLACK_S = 5.0
SHM = "/dev/shm"  # noqa: S108 - the name of a check


def judge(facts: ControllerFacts) -> tuple[Finding, ...]:
    """All findings about the controller, one per check."""
    return (
        _ssh(facts),
        _login(facts),
        _key_modes(facts),
        _control_path(facts),
        _home(facts.home),
        _disk(facts.home),
        _memory_files(facts.shm),
        _open_files(facts),
        _processes(facts),
        _locale(facts),
        _python(facts),
        _packages(facts.packages),
        _programs(facts),
        _collection(facts),
        _configuration(facts),
        _clock(facts),
        _engine(facts),
        _debian(facts),
    )


def _ssh(facts: ControllerFacts) -> Finding:
    if facts.ssh is None:
        return Finding("ssh client", UNCHECKED, "ssh -V gives no answer")
    if not facts.ssh:
        return Finding(
            "ssh client", FAIL, "not installed", "hosts are reached with it", "apt-get install openssh-client"
        )
    return Finding("ssh client", OK, facts.ssh)


def _login(facts: ControllerFacts) -> Finding:
    if facts.agent_keys:
        return Finding("ssh login", OK, f"the agent holds {_keys(facts.agent_keys)}")
    if facts.keys:
        return Finding("ssh login", OK, f"{_keys(len(facts.keys))} in ~/.ssh, no agent with keys")
    why = "hosts want a key, unless the inventory names one or -k gives a password"
    return Finding("ssh login", WARN, "no key in ~/.ssh and no agent with keys", why, "ssh-keygen -t ed25519")


def _keys(number: int) -> str:
    return "1 key" if number == 1 else f"{number} keys"


def _key_modes(facts: ControllerFacts) -> Finding:
    loose = [path for path, mode in facts.keys if mode & 0o077]
    if loose:
        value = "others may read " + ", ".join(loose)
        return Finding("ssh keys", FAIL, value, "ssh refuses such a key", shlex.join(["chmod", "600", *loose]))
    if not facts.keys:
        return Finding("ssh keys", UNCHECKED, "~/.ssh has no private key")
    return Finding("ssh keys", OK, "no private key that others may read")


def _control_path(facts: ControllerFacts) -> Finding:
    length = len(facts.control_directory.encode("utf-8", "surrogateescape"))
    value = f"{facts.control_directory} ({length} bytes, at most {LONGEST_CONTROL_DIR})"
    if length > LONGEST_CONTROL_DIR:
        why = "ssh cannot make its control sockets there: every host would seem unreachable"
        return Finding("ssh control path", FAIL, value, why, "export ANSIBLE_SSH_CONTROL_PATH_DIR=$(mktemp -d)")
    return Finding("ssh control path", OK, value)


def _home(found: Directory) -> Finding:
    path = shlex.quote(found.path)
    if found.problem:
        value = f"{found.path}: {found.problem}"
        return Finding("state directory", FAIL, value, "runs and results are kept there", "export DDP_PLAY_HOME=DIR")
    if found.exists and found.mode & 0o022:
        value = f"{found.path} has mode {found.mode:04o}: others may write there"
        return Finding("state directory", FAIL, value, "others could change what is run", f"chmod 700 {path}")
    if found.exists and found.mode & 0o055:
        value = f"{found.path} has mode {found.mode:04o}: others may list it"
        return Finding("state directory", WARN, value, "it has names of jobs and hosts", f"chmod 700 {path}")
    return Finding("state directory", OK, found.path + ("" if found.exists else ", made at the first run"))


def _disk(found: Directory) -> Finding:
    check, why, command = "disk space", "bundles, logs and checkpoints go there", f"df -h {shlex.quote(found.path)}"
    if found.free_mib is None:
        return Finding(check, UNCHECKED, f"{found.path}: {found.problem}")
    value = f"{found.free_mib} MiB free for {found.path}"
    if found.free_files is not None and found.free_files < LEAST_FREE_FILES:
        value = f"{found.free_files} free files (inodes) for {found.path}"
        return Finding(check, FAIL, value, why, f"df -i {shlex.quote(found.path)}")
    if found.free_mib < LEAST_FREE_MIB:
        return Finding(check, FAIL, value, why, command)
    return Finding(check, WARN if found.free_mib < USUAL_FREE_MIB else OK, value, why, command)


def _memory_files(found: Directory | None) -> Finding:
    why = "passwords that you type go there, not to a disk"
    if found is None:
        return Finding(SHM, WARN, "missing", why, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm")
    if found.problem:
        return Finding(SHM, FAIL, found.problem, why, "df -h /dev/shm; ls -ld /dev/shm")
    return Finding(SHM, OK, "writable")


def _open_files(facts: ControllerFacts) -> Finding:
    hard = facts.nofile[1]
    why = "a run needs three per host; it raises its limit to the hard one"
    if 0 <= hard < LEAST_FILES:
        return Finding("open files", WARN, f"at most {hard}", why, "ulimit -Hn; raise nofile in limits.conf")
    return Finding("open files", OK, "no limit" if hard < 0 else f"at most {hard}")


def _processes(facts: ControllerFacts) -> Finding:
    if 0 <= facts.nproc < LEAST_PROCESSES:
        why = "Ansible starts up to 100 at a time, each with an ssh"
        return Finding("processes", WARN, f"at most {facts.nproc}", why, "ulimit -u; raise nproc in limits.conf")
    return Finding("processes", OK, "no limit" if facts.nproc < 0 else f"at most {facts.nproc}")


def _locale(facts: ControllerFacts) -> Finding:
    why, command = "Ansible refuses to start without UTF-8", "export LC_ALL=C.UTF-8"
    if facts.locale_problem:
        return Finding("locale", FAIL, facts.locale_problem, why, command)
    if facts.encoding.lower().replace("-", "") != "utf8":
        return Finding("locale", FAIL, f"encoding {facts.encoding}", why, command)
    return Finding("locale", OK, facts.encoding)


def _python(facts: ControllerFacts) -> Finding:
    if facts.python_fits:
        return Finding("Python", OK, facts.python)
    value = f"{facts.python}, needed is {facts.python_required}"
    return Finding("Python", FAIL, value, "ddp-play runs on it", "python3.11 -m venv NEW; NEW/bin/pip install ddp-play")


def _packages(packages: tuple[Package, ...]) -> Finding:
    if not packages:
        return Finding("packages", UNCHECKED, "the installed ddp-play does not say what it needs")
    wrong = [f"{row.name} {row.version or 'missing'} (needed: {row.required})" for row in packages if not row.fits]
    if wrong:
        why = "only these versions are tested together"
        return Finding("packages", FAIL, "; ".join(wrong), why, "pip install --upgrade ddp-play; pip check")
    shown = [f"{row.name} {row.version}" for row in packages if row.name.startswith("ansible")]
    return Finding("packages", OK, ", ".join(shown) or f"{len(packages)} as needed")


def _programs(facts: ControllerFacts) -> Finding:
    why, command = "a run starts it from PATH", f"export PATH={shlex.quote(facts.own_programs)}:$PATH"
    if not facts.playbook_program:
        return Finding("ansible-playbook", FAIL, "not found", why, "pip install --upgrade ddp-play")
    if str(Path(facts.playbook_program).parent) != facts.own_programs:
        value = f"{facts.playbook_program} is of another installation than {facts.own_programs}"
        return Finding("ansible-playbook", FAIL, value, f"{why}, and it does not find ddp-play", command)
    return Finding("ansible-playbook", OK, facts.playbook_program)


def _collection(facts: ControllerFacts) -> Finding:
    if facts.collection_problem:
        why, command = "roles and command must be of one build", "ansible-galaxy collection list ddp.play"
        return Finding("collection", FAIL, facts.collection_problem, why, command)
    return Finding("collection", OK, facts.collection)


def _configuration(facts: ControllerFacts) -> Finding:
    if facts.exposed_config:
        value = f"every user may replace {facts.exposed_config}"
        why, command = "it decides which code Ansible runs", f"chmod o-w {_parent(facts.exposed_config)}"
        return Finding("ansible.cfg", FAIL, value, why, command)
    if facts.ignored_config:
        value = f"Ansible ignores {facts.ignored_config}: every user may write to its directory"
        why, command = "its settings have no effect", f"chmod o-w {_parent(facts.ignored_config)}"
        return Finding("ansible.cfg", WARN, value, why, command)
    return Finding("ansible.cfg", OK, "in no directory that every user may write to")


def _parent(path: str) -> str:
    return shlex.quote(str(Path(path).absolute().parent))


def _clock(facts: ControllerFacts) -> Finding:
    why = "times of runs, leases and certificates depend on it"
    if facts.behind_package_s > CLOCK_SLACK_S:
        value = f"{facts.behind_package_s:.0f} s behind the installed files"
        without_systemd = "date --set 'YYYY-MM-DD HH:MM:SS'"
        command = without_systemd if facts.synchronized is None else "timedatectl set-ntp true"
        return Finding("clock", FAIL, value, why, command)
    if facts.synchronized is None:
        return Finding("clock", UNCHECKED, "timedatectl does not tell here whether it is synchronized", why)
    if not facts.synchronized:
        return Finding("clock", WARN, "not synchronized", why, "timedatectl set-ntp true")
    return Finding("clock", OK, "synchronized")


def _engine(facts: ControllerFacts) -> Finding:
    if facts.engine_problem:
        why = "only `lab` and `image` need an engine here"
        return Finding("container engine", WARN, facts.engine_problem, why, facts.engine_hint)
    return Finding("container engine", OK, "answers")


def _debian(facts: ControllerFacts) -> Finding:
    if facts.debian_problem:
        why = "`lab` and `image build --cpu` make their Debian with debootstrap where no registry answers"
        return Finding("Debian for images", WARN, facts.debian_problem, why, facts.debian_hint)
    return Finding("Debian for images", OK, "can be had")
