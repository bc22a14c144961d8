"""Options of `lab up`, and their checks."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_HOSTS = 128
MAX_SLOTS = 64
DEFAULT_NAME = "lab"
USERS = ("ops", "root")
SHARED_DIR = "/srv/ddp-play-shared"
# Names of containers, volumes and networks contain the lab's name. With 32 characters, every host name is legal.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Distro(StrEnum):
    """The Debian release the hosts run."""

    BOOKWORM = "bookworm"
    TRIXIE = "trixie"


class JobEngine(StrEnum):
    """What the inventory's groups make of the hosts: a cluster for runs over SSH, or one of Slurm as well."""

    SSH = "ssh"
    SLURM = "slurm"


@dataclass(frozen=True)
class LabSpec:
    """Requested lab; if `subnets` is empty, `up` chooses free ones."""

    name: str
    num_hosts: int
    slots: tuple[int, ...]
    distro: Distro = Distro.BOOKWORM
    num_fabrics: int = 1
    engine: bool = True
    user: str = "ops"
    subnets: tuple[str, ...] = ()
    job_engine: JobEngine = JobEngine.SSH


def make_spec(spec: LabSpec) -> LabSpec:
    """Check a spec and assign slots to every host. Raises UsageError if options contradict each other."""
    check_name(spec.name)
    _check_range("--hosts", spec.num_hosts, 1, MAX_HOSTS)
    _check_range("--fabrics", spec.num_fabrics, 1, 2)
    if spec.user not in USERS:
        raise UsageError(f"--user is {spec.user!r}: lab hosts have the users {' and '.join(USERS)}")
    return replace(
        spec,
        slots=_slots_per_host(spec.slots, spec.num_hosts),
        subnets=_checked_subnets(spec.subnets, num_fabrics=spec.num_fabrics, num_hosts=spec.num_hosts),
    )


def check_name(name: str) -> None:
    """Raise UsageError for a name that cannot be part of container, volume, network and directory names."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: use 1 to 32 of a-z, 0-9 and '-', starting with a letter or digit")


def parse_slots(text: str) -> tuple[int, ...]:
    """'2,1,1' -> (2, 1, 1); empty: one slot per host. Raises UsageError."""
    if not text.strip():
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--slots {text!r}: whole numbers separated by commas are expected, as in 2,1,1") from None


def _slots_per_host(slots: Sequence[int], num_hosts: int) -> tuple[int, ...]:
    for count in slots:
        _check_range("--slots", count, 1, MAX_SLOTS)
    if len(slots) <= 1:
        return (slots[0] if slots else 1,) * num_hosts
    if len(slots) != num_hosts:
        raise UsageError(
            f"--slots has {len(slots)} numbers for {num_hosts} hosts",
            hint="give one number for all hosts, or exactly one per host",
        )
    return tuple(slots)


def _checked_subnets(subnets: Sequence[str], *, num_fabrics: int, num_hosts: int) -> tuple[str, ...]:
    if not subnets:
        return ()
    if len(subnets) != num_fabrics:
        raise UsageError(f"--subnet was given {len(subnets)} times for {num_fabrics} fabrics")
    nets = []
    for text in subnets:
        try:
            net = ipaddress.IPv4Network(text)
        except ValueError as error:
            raise UsageError(f"--subnet {text}: {error}", hint="write it like 10.77.0.0/24") from None
        # network, broadcast and gateway are not for hosts
        if net.num_addresses - 3 < num_hosts:
            raise UsageError(f"--subnet {text} has room for {max(net.num_addresses - 3, 0)} hosts, not {num_hosts}")
        nets.append(net)
    if len(nets) == 2 and nets[0].overlaps(nets[1]):
        raise UsageError(f"--subnet {nets[0]} and {nets[1]} overlap")
    return tuple(str(net) for net in nets)


def _check_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{option} is {value}: {low} to {high} are allowed")
