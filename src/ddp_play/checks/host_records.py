"""Own record of a host: its figures on a good day, with the parts and versions for which they hold. Pure.

A record is found by the host's machine id, not by its name, and holds for the same parts and versions only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.checks.fleet import NOT_OURS, NotRun
from ddp_play.checks.pair_samples import CPU_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ddp_play.checks.fleet import CheckedHost, Fleet

FORMAT = 1
VERSIONS = ("kernel", "nvidia driver", "ofed", "rdma firmware")
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which machine this is, and for which of its parts and versions a figure holds."""

    machine: str  # its machine id
    parts: Mapping[str, list[str]]
    versions: Mapping[str, str]

    @property
    def stamp(self) -> str:
        """Short text that changes with the parts and versions."""
        return stamp(self.parts, self.versions)


@dataclass(frozen=True, slots=True)
class Record:
    """One host. `rates`: by machine id of a peer its name and `stamp`, and `mbps` and `rtt_ms` of the way there."""

    machine: str
    name: str
    made: str  # UTC
    level: str
    parts: Mapping[str, list[str]]  # serial numbers
    versions: Mapping[str, str]
    figures: Mapping[str, float]
    rates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def stamp(self) -> str:
        """Short text that changes with the parts and versions."""
        return stamp(self.parts, self.versions)

    def changed(self, parts: Mapping[str, list[str]], versions: Mapping[str, str]) -> str:
        """What is no longer as it was recorded; empty if the record holds."""
        then, now = {**self.versions}, {**versions}
        texts = [f"{name} {then.get(name, 'none')} -> {now.get(name, 'none')}"
                 for name in sorted({*then, *now}) if then.get(name) != now.get(name)]  # fmt: skip
        for name in sorted({*self.parts, *parts}):
            old, new = set(self.parts.get(name, ())), set(parts.get(name, ()))
            numbers = [f"{len(values)} {word}" for values, word in ((old - new, "gone"), (new - old, "new")) if values]
            texts += [f"{name}: {', '.join(numbers)}"] if numbers else []
        return "; ".join(texts)

    def gone(self, parts: Mapping[str, list[str]]) -> tuple[str, ...]:
        """Recorded parts that are missing, of kinds of which fewer are there: nothing took their place."""
        return tuple(
            f"{name} {value}" for name, then in self.parts.items() if len(parts.get(name, ())) < len(then)
            for value in then if value not in parts.get(name, ())
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The document of its file."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Record | None:
        """From its file; None for one of another form."""
        values = dict(document)
        try:
            return cls(**values) if values.pop("format") == FORMAT else None
        except (KeyError, TypeError):
            return None


def stamp(parts: Mapping[str, list[str]], versions: Mapping[str, str]) -> str:
    """Short text that changes with the parts and versions."""
    text = json.dumps([dict(parts), dict(versions)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def sound_answer() -> Iterator[None]:
    """Raise NotRun if an answer of a host has not the form that it has to have."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NotRun(f"{NOT_OURS} ({type(error).__name__}: {error})", broken=True) from error


def identity_of(host: CheckedHost) -> Identity:
    """The host's identity. Raises NotRun."""
    if host.facts is None:
        raise NotRun("the host could not be asked", broken=True)
    with sound_answer():
        machine = str(host.read("identity")["machine_id"])
        if not machine:
            raise NotRun("it has no /etc/machine-id", broken=False)
        return Identity(machine, parts_of(host), versions_of(host))


def parts_of(host: CheckedHost) -> dict[str, list[str]]:
    """Serial numbers of what a figure depends on."""
    identity = host.read("identity")
    hardware = {name for name, row in host.read("nics").items() if row.get("hardware")}
    found = {
        "GPUs": sorted(gpu.uuid for gpu in host.known.gpus),
        "NICs": sorted(mac for name, mac in identity["macs"].items() if name in hardware),
        "RDMA devices": sorted(identity["guids"]),
    }
    return {name: values for name, values in found.items() if values}


def versions_of(host: CheckedHost) -> dict[str, str]:
    """Kernel, drivers and firmware. One that is not read on this host is not in the set."""
    software = host.read("software")
    found = {name: str(software[name]) for name in VERSIONS if software.get(name)}
    for name, row in sorted(host.read("nics").items()):
        if row.get("firmware"):
            found[f"firmware of {name}"] = str(row["firmware"])
    return found


def figures_of(host: CheckedHost) -> Figures:
    """What has a figure, by the name of its limit. What could not be read is left out."""
    found: Figures = {}
    for name, read in (("cpus", ("cpu", "usable")), ("memory", ("memory", "total_mib")),
                       ("cpu clock limit", ("governor", "max_mhz"))):  # fmt: skip
        try:
            value = host.read(read[0]).get(read[1])
        except NotRun:
            continue
        if value:
            found[name] = float(value)
    if host.known.gpus:
        found["gpu memory"] = float(sum(gpu.memory_mib for gpu in host.known.gpus))
    found |= {f"rdma rate: {port.device} port {port.port}": port.rate_gbps for port in host.known.rdma if port.active}
    return found | _link_speeds(host)


def _link_speeds(host: CheckedHost) -> Figures:
    try:
        nics = host.read("nics")
    except NotRun:
        return {}
    links = [link for link in host.known.interfaces if link.speed_mbps and link.up]
    return {f"link speed: {link.name}": float(link.speed_mbps or 0) for link in links
            if nics.get(link.name, {}).get("hardware") and not link.virtual}  # fmt: skip


def record_of(host: CheckedHost, fleet: Fleet, level: str, made: str) -> Record:
    """The record that this check makes of a host. Raises NotRun."""
    own, rates = identity_of(host), {}
    peers = {name: identity for name, identity in identities(fleet).items() if name != host.name}
    for row in directions(fleet):
        if row["source"] == host.name and row["target"] in peers:
            peer = peers[row["target"]]
            rates[peer.machine] = {
                "host": row["target"], "stamp": peer.stamp, "mbps": row["mbps"], "rtt_ms": row.get("rtt_ms")
            }  # fmt: skip
    with sound_answer():
        return Record(own.machine, host.name, made, level, own.parts, own.versions, figures_of(host), rates)


def directions(fleet: Fleet) -> Iterable[Mapping[str, Any]]:
    """Measured directions whose rate is that of the network: no CPU was the limit."""
    rows = [*fleet.matrix["directions"], *fleet.matrix["repeated"]] if fleet.matrix else []
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        way = (row["source"], row["target"])
        if row["mbps"] and not is_limited(row) and row["mbps"] > best.get(way, {"mbps": 0.0})["mbps"]:
            best[way] = row
    return best.values()


def is_limited(row: Mapping[str, Any]) -> bool:
    """Was a CPU the limit of this direction, as `Sample.cpu_limited` says it?"""
    return bool(row.get("busy", 0.0) > CPU_LIMIT)


def merged(new: Record, old: Record | None) -> Record:
    """The new record, with rates of the old one to peers that were not measured now, if nothing has changed."""
    if old is None or old.stamp != new.stamp:
        return new
    values = asdict(new)
    values["rates"] = {**old.rates, **new.rates}
    return Record(**values)


def recorded_rates(fleet: Fleet, records: Mapping[str, Record]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """By direction what is recorded of it, where parts and versions of both hosts are still the same."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    known = identities(fleet)
    for source, own in known.items():
        record = records.get(own.machine)
        if record is None or record.stamp != own.stamp:
            continue
        for target, peer in known.items():
            row = record.rates.get(peer.machine)
            if target != source and row and row["stamp"] == peer.stamp:
                found[source, target] = row
    return found


def identities(fleet: Fleet) -> dict[str, Identity]:
    """Identities by host, of those that have one."""
    found = {}
    for host in fleet.reached:
        with contextlib.suppress(NotRun):
            found[host.name] = identity_of(host)
    return found
