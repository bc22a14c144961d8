"""What is wrong with a host and what helps, by what ssh, sudo, shells, package managers and engines print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a text is about."""

    HOST_KEY = "host_key"
    CREDENTIALS = "credentials"
    BECOME = "become"
    UNREACHABLE = "unreachable"
    PYTHON = "python"
    TASK = "task"  # a provisioning task: packages, services, mounts
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Known:
    """A text that is recognized. The remedy may name {host}, {address}, {role}, {server} and {another_source}."""

    pattern: str
    kind: Kind
    remedy: str


# The first row that matches counts. What a connection says is compared with the rows that are not about tasks.
KNOWN: tuple[Known, ...] = (
    Known(
        r"Could not get lock|Failed to lock apt|lock-frontend|Waiting for cache lock|yum lockfile",
        Kind.TASK,
        "another package manager is at work there: wait for it, or raise the role's *_lock_timeout_s",
    ),
    Known(
        r"No space left on device|enough free space",
        Kind.TASK,
        "make room: df -h on the host; docker_engine_data_root moves images",
    ),
    Known(
        r"runs [\w.]+ [\d.]+\b.*[Kk]nown: |is not supported by \w+\. Supported:",
        Kind.TASK,
        "take one of the systems that it lists, or add a row to the role's vars and try it",
    ),
    Known(
        r"Failed to update apt cache after \d+ retries: *$",
        Kind.TASK,
        "apt-get update on the host says which source or key is at fault: a mirror ({role}_source), its proxy, "
        "its clock",
    ),
    Known(
        r"NO_PUBKEY|EXPKEYSIG|KEYEXPIRED|BADSIG|is not signed|signatures? (?:couldn't|could not) be verified",
        Kind.TASK,
        "the repository's key is wrong or has expired: check the role's *_key_url and the host's clock",
    ),
    Known(
        r"Name or service not known|Temporary failure (?:in name resolution|resolving)|Could not resolve (?!hostname)"
        r"|No address associated with hostname",
        Kind.TASK,
        "the host cannot resolve {server}: {another_source}, or mend the host's DNS or its proxy",
    ),
    Known(
        r"Failed to fetch|Unable to connect to|Connection timed out|urlopen error|Request failed",
        Kind.TASK,
        "the host gets nothing from {server}: {another_source}, or mend the host's route or its proxy",
    ),
    Known(
        r"No package matching|Unable to locate package|has no installation candidate|Version .* was not found",
        Kind.TASK,
        "the source does not offer it: apt-cache policy on the host shows what it has; choose another {role}_source",
    ),
    Known(
        r"dpkg was interrupted|dpkg --configure -a",
        Kind.TASK,
        "an earlier installation was cut off: run dpkg --configure -a on the host, then provision again",
    ),
    Known(
        r"error setting rlimit|RLIMIT|operation not permitted.*ulimit",
        Kind.TASK,
        "the engine may not raise that limit here: lower docker_engine_default_ulimits",
    ),
    Known(r"access denied by server", Kind.TASK, "the export does not list this host: exportfs -s on the server"),
    Known(
        r"servers whose name does not resolve there",
        Kind.TASK,
        "correct nfs_client_mounts by what it names: an address for the name, an empty mount point, another server",
    ),
    Known(
        r"gets no answer from .* port",
        Kind.TASK,
        "systemctl status nfs-server there; its firewall opens the port with base_os_firewall_extra",
    ),
    Known(
        r"has no NFS (client|server)",
        Kind.TASK,
        "give it its distribution's own kernel, or take it out of the mounts or of group nfs_server",
    ),
    Known(
        r"Secure boot is on",
        Kind.TASK,
        "on Ubuntu nvidia_driver_source: distribution; elsewhere enrol DKMS's key, or switch secure boot off",
    ),
    Known(
        r"Driver branch \S+ is refused|is too old: torch",
        Kind.TASK,
        "set nvidia_driver_branch to one that is offered, or change the torch",
    ),
    Known(
        r"fabricmanager is \S+, the driver is",
        Kind.TASK,
        "ddp-play provision --tags nvidia_driver brings both to one version",
    ),
    Known(r"reboot needed", Kind.TASK, "ansible-playbook ddp.play.reboot --limit HOST, then provision again"),
    Known(
        r"Read-only file system", Kind.TASK, "the host's disk is read-only: look at dmesg there before anything else"
    ),
    Known(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        Kind.HOST_KEY,
        "if the host was reinstalled: ssh-keygen -R {address}; if it is new: connect once with ssh, or ssh-keyscan",
    ),
    Known(
        r"Permission denied \(|Permission denied, please try again|Invalid/incorrect (username/)?password",
        Kind.CREDENTIALS,
        "which key does it want? --private-key, -u, or ansible_ssh_private_key_file in the inventory",
    ),
    Known(
        r"[Mm]issing sudo password|sudo: a password is required|a terminal is required|Incorrect sudo password|"
        r"[Mm]issing become password|Incorrect become password|"
        r"is not in the sudoers file|is not allowed to (run|execute)",
        Kind.BECOME,
        "give the password with -K, or NOPASSWD in sudoers for this user",
    ),
    Known(
        r"you must have a tty to run sudo",
        Kind.BECOME,
        "sudo there wants a terminal, which a run cannot have: add 'Defaults:USER !requiretty' with visudo on {host}",
    ),
    Known(
        r"sudo: (command )?not found|sudo: No such file",
        Kind.BECOME,
        "install sudo on {host}, or connect as root with -u root",
    ),
    Known(
        r"Could not resolve hostname|Name or service not known", Kind.UNREACHABLE, "set ansible_host in the inventory"
    ),
    Known(  # dash, bash, and a Python older than 3.7 that reads our program
        r"python[\w.-]*: (command not found|not found|(cannot execute: )?No such file or directory|Permission denied)|"
        r"future feature annotations is not defined",
        Kind.PYTHON,
        "install Python 3.9 or newer on {host}, or name it with ansible_python_interpreter",
    ),
)

# What serves a role whose source of packages cannot be reached.
ANOTHER_SOURCE = {
    "docker_engine": "set docker_engine_source: distribution, or mirror with docker_engine_mirror_url",
    "python_env": "set python_env_source: mirror or wheelhouse",
    "image_distribution": "choose another image_distribution_source",
}
SERVER = re.compile(r"https?://(?:[^/\s@]*@)?([\w.-]+)|Could not resolve(?: host)?:? '?([\w.-]+)")


def problem_from_text(host: str, text: str, address: str, *, reached: bool = False, hint: str = "") -> dict[str, str]:
    """A Problem as data, from whatever the connection said; `reached` when the host itself answered something."""
    lines = re.sub("@{3,}", "", text).splitlines()  # ssh's frame around a changed host key
    words = " ".join(line.strip() for line in lines if line.strip() and not line.startswith("@"))
    known = next((row for row in KNOWN if row.kind is not Kind.TASK and re.search(row.pattern, text)), None)
    if known is not None:
        hint = hint or _filled(known.remedy, text, host=host, address=address)
        return {"host": host, "kind": str(known.kind), "message": words[-400:], "hint": hint}
    if reached:
        return {"host": host, "kind": str(Kind.OTHER), "message": words[-400:] or "it gave no answer", "hint": hint}
    hint = f"is it up? ssh {address}"
    return {"host": host, "kind": str(Kind.UNREACHABLE), "message": words[-400:] or "unreachable", "hint": hint}


def remedy_of(text: str, role: str = "", *, host: str = "", address: str = "") -> str:
    """The line that helps where a task failed; empty where the message is all we know.

    The host answered: what it says of unknown names or closed ports is about other machines.
    """
    known = next((row for row in KNOWN if re.search(row.pattern, text)), None)
    if known is None or known.kind is Kind.UNREACHABLE:
        return ""
    return _filled(known.remedy, text, host=host, address=address, role=role or "ROLE")


def _filled(remedy: str, text: str, *, host: str, address: str, role: str = "ROLE") -> str:
    """The remedy with its names; {server} is that of the first URL in the text."""
    server = SERVER.search(text)
    named = (server[1] or server[2]) if server else "its package source"
    source = ANOTHER_SOURCE.get(role, f"set {role}_source to a mirror or the distribution")
    return remedy.format(host=host, address=address, role=role, server=named, another_source=source)
