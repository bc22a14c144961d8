"""A defect of hosts: the commands that make and mend it on a lab, and what `ddp-play check` must find then.

In commands `{h1}` is the container of host h1, `{a1}` its address, `{net}` the first three numbers of all addresses,
`{cpus}` the number of CPUs and `{files}` the directory of this module. They run on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.checks.fleet import FULL, QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTS = ("h1", "h2", "h3", "h4")
HOSTS_OF_LEVEL = {QUICK: HOSTS[:3], FULL: HOSTS}
Ways = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A finding that is right. `where`: the hosts that it names; `ways`: the directions; `says`: part of its value."""

    check: str
    where: tuple[str, ...]
    result: str = "fail"
    says: str = ""
    ways: Ways = ()


@dataclass(frozen=True, slots=True)
class Defect:
    """One defect. `number`: its kind in `kinds.KINDS`. Without a `check` no finding is right: each is a false alarm.

    `more`: further findings that are right, because the defect is seen in more than one way. `options`: of the check.
    """

    number: int
    name: str
    seed: str
    mend: str
    check: str = ""
    where: tuple[str, ...] = ()
    result: str = "fail"
    says: str = ""
    ways: Ways = ()
    level: str = QUICK
    more: tuple[Wanted, ...] = ()
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """All findings that are right."""
        first = Wanted(self.check, self.where, self.result, self.says, self.ways)
        return (first, *self.more) if self.check else ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are checked."""
        return HOSTS_OF_LEVEL[self.level]


def filled(text: str, values: Mapping[str, str]) -> str:
    """A command or a text with names and addresses."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def inside(host: str, command: str) -> str:
    """A command of root on a host; it may have double quotes only."""
    return f"docker exec {{{host}}} sh -c '{command}'"


def every(commands: Mapping[str, str] | tuple[tuple[str, str], ...]) -> str:
    """Commands of root on several hosts, one after the other."""
    rows = commands if isinstance(commands, tuple) else tuple(commands.items())
    return " && ".join(inside(host, command) for host, command in rows)


def hosts_file(host: str, script: str) -> tuple[str, str]:
    """Commands that change /etc/hosts with sed, and change it back. The file is a mount."""
    change = f'cp /etc/hosts /root/hosts.kept; sed "{script}" /root/hosts.kept > /etc/hosts'
    return inside(host, change), inside(host, "cat /root/hosts.kept > /etc/hosts")


def rule(host: str, text: str) -> tuple[str, str]:
    """Commands that add and delete a firewall rule."""
    return inside(host, f"iptables -A {text}"), inside(host, f"iptables -D {text}")


def limit(host: str, text: str) -> tuple[str, str]:
    """Commands that set a limit of the login and remove it."""
    path = "/etc/security/limits.d/zz-defect.conf"
    return inside(host, f'echo "ops hard {text}" > {path}'), inside(host, f"rm {path}")


def unit(host: str, program: str, *, user: str = "ops") -> tuple[str, str]:
    """Commands that start a Python program as a systemd unit, and end it."""
    start = f'systemd-run -q --collect --unit defect --uid {user} python3 -c "{program}"'
    return inside(host, start), inside(host, "systemctl stop defect")


def program_of(host: str, name: str, words: str) -> tuple[str, str]:
    """Commands that start a program of this directory as root, before others where CPUs are busy, and end it."""
    copy = f"docker exec -i {{{host}}} sh -c 'cat > /run/{name}' < {{files}}/{name}"
    start = f"systemd-run -q --collect --unit defect -p Nice=-20 python3 /run/{name} {words}"
    return f"{copy} && {inside(host, start)}", inside(host, f"systemctl stop defect; rm -f /run/{name}")
