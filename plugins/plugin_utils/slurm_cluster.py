"""One configuration for all hosts of a Slurm cluster, from the facts of its hosts, and what speaks against it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.ddp.play.plugins.module_utils import slurm
from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Slurm drains a node that has less memory than its line says, and the kernel's part differs from boot to boot.
MEMORY_SHARE = 0.95
# Ends a line of one host, so that the host keeps it while it is outside --limit.
OWNER = re.compile(r"^(?P<line>.*\S) +# host (?P<host>\S+)$")
CGROUP = "ProctrackType=proctrack/cgroup"
EXTRA = "give the hosts in one play: leave --limit out, or add %s to it"


@dataclass(frozen=True)
class Member:
    """A host of the play: its address for the others, and its facts as ddp.play.slurm_facts returns them."""

    address: str
    facts: Mapping[str, Any]

    @property
    def hostname(self) -> str:
        """Its name in Slurm."""
        return str(self.facts["hostname"])


@dataclass(frozen=True)
class Cluster:
    """Hosts by their parts, those that the play has read, and what the controller has now."""

    controllers: tuple[str, ...]
    nodes: tuple[str, ...]
    members: Mapping[str, Member]
    present: tuple[str, ...]  # hosts of the play
    conf: str = ""
    gres: str = ""
    key: str = ""  # digest of the wanted MUNGE key; empty until the controller has one
    given_key: bool = False
    replace_conf: bool = False
    replace_key: bool = False
    jobs: tuple[str, ...] = ()  # that run now
    accounting: tuple[str, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)  # of the hosts of accounting

    @property
    def controller(self) -> str:
        """The one controller."""
        return self.controllers[0] if self.controllers else ""

    @property
    def leads(self) -> bool:
        """Whether the play has the controller, so that it may change the configuration."""
        return self.controller in self.present


def node_line(name: str, member: Member) -> str:
    """NodeName line of a host, with its memory less a share that the kernel may take; empty without hardware facts."""
    hardware = dict(member.facts["hardware"])
    if not hardware:
        return ""
    hardware["RealMemory"] = str(int(int(hardware["RealMemory"]) * MEMORY_SHARE))
    gres = ",".join(f"gpu:{kind}:{len(minors)}" if kind else f"gpu:{len(minors)}" for kind, minors in _gpus(member))
    words = [f"NodeName={member.hostname}", f"NodeAddr={member.address}"]
    words += [f"{key}={value}" for key, value in hardware.items()]
    words += [f"Gres={gres}"] if gres else []
    return " ".join([*words, "State=UNKNOWN", "#", "host", name])


def gres_lines(name: str, member: Member) -> list[str]:
    """Lines of gres.conf for the GPUs of a host, one per type: their device files."""
    return [
        f"NodeName={member.hostname} Name=gpu {f'Type={kind} ' if kind else ''}File={_devices(minors)} # host {name}"
        for kind, minors in _gpus(member)
    ]


def _gpus(member: Member) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for gpu in member.facts["gpus"]:
        found.setdefault(str(gpu["type"]), []).append(int(gpu["minor"]))
    return list(found.items())


def _devices(minors: Sequence[int]) -> str:
    numbers = ",".join(str(minor) for minor in minors)
    return f"/dev/nvidia[{numbers}]" if len(minors) > 1 else f"/dev/nvidia{numbers}"


def owned_lines(text: str) -> dict[str, list[str]]:
    """Lines of each host in a text of slurm.conf or gres.conf, as they are there."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = OWNER.match(line)
        if match:
            found.setdefault(match["host"], []).append(line)
    return found


def lines(cluster: Cluster, kept: str, kind: str) -> list[str]:
    """Lines of all nodes in the order of the inventory; a host outside the play keeps the one that it has."""
    old = owned_lines(kept)
    found: list[str] = []
    for name in cluster.nodes:
        member = cluster.members.get(name)
        if member is None or not member.facts["hardware"]:
            found += old.get(name, [])
        else:
            found += [node_line(name, member)] if kind == "node" else gres_lines(name, member)
    return found


def node_names(rows: Iterable[str]) -> list[str]:
    """Names of the nodes of these lines."""
    return [row.split()[0].partition("=")[2] for row in rows]


def uses_cgroups(cluster: Cluster) -> bool:
    """Whether every node can hold jobs in control groups. Nodes outside the play can, if the present text says so."""
    seen = [cluster.members[name] for name in cluster.nodes if name in cluster.members]
    before = CGROUP in cluster.conf
    outside = [name for name in cluster.nodes if name not in cluster.members and name in owned_lines(cluster.conf)]
    return all(member.facts["cgroup"] for member in seen) and (before or not outside)


def problems(cluster: Cluster) -> list[str]:
    """Reasons not to configure the cluster, a sentence each, with the host and what to do."""
    if len(cluster.controllers) != 1:
        named = ", ".join(cluster.controllers) or "none"
        return [f"a cluster has one controller, and group slurm_controller has {named}: leave one host in it"]
    if len(cluster.accounting) > 1:
        return [f"group slurm_accounting has {', '.join(cluster.accounting)}: leave at most one host in it"]
    if not cluster.nodes:
        return ["group slurm_nodes has no host: add the hosts that run jobs"]
    return [
        *_names(cluster),
        *_addresses(cluster),
        *_same(cluster),
        *_foreign(cluster),
        *_keys(cluster),
        *_limit(cluster),
    ]


def _names(cluster: Cluster) -> Iterator[str]:
    owners: dict[str, str] = {}
    for name, member in cluster.members.items():
        other = owners.setdefault(member.hostname, name)
        if other != name or member.hostname == "localhost":
            also = f", as {other} is" if other != name else ""
            yield f"{name} is called {member.hostname}{also}: give it a host name of its own (hostnamectl set-hostname)"


def _addresses(cluster: Cluster) -> Iterator[str]:
    for name, member in cluster.members.items():
        for other, found in member.facts["addresses"].items():
            if not found:
                yield f"{name} cannot resolve {other}: set slurm_address of that host to its address"
            elif any(slurm.is_loopback(address) for address in found):
                yield f"{name} resolves {other} to {found[0]}, which only the host itself reaches: set slurm_address"


def _same(cluster: Cluster) -> Iterator[str]:
    uids = {name: str(member.facts["uids"].get("slurm", "")) for name, member in cluster.members.items()}
    releases = {name: str(member.facts["release"]) for name, member in cluster.members.items()}
    for what, values in (("uid of user slurm", uids), ("release of Slurm", releases)):
        groups: dict[str, list[str]] = {}
        for name, value in values.items():
            if value:
                groups.setdefault(value, []).append(name)
        if len(groups) > 1:
            shown = "; ".join(f"{value} on {', '.join(names)}" for value, names in groups.items())
            yield f"the {what} has to be the same on all hosts: {shown}"


def _foreign(cluster: Cluster) -> Iterator[str]:
    for name, member in cluster.members.items():
        if member.facts["conf"] and OWN_MARK not in member.facts["conf"] and not cluster.replace_conf:
            hint = (
                "take the host out of the groups slurm_*, or set slurm_replace_config: true, which keeps the original"
            )
            yield f"{name} has an /etc/slurm/slurm.conf of its site: {hint}"


def _keys(cluster: Cluster) -> Iterator[str]:
    for name, member in cluster.members.items():
        adopted = name == cluster.controller and not cluster.given_key
        if not member.facts["munge_before"] or adopted or cluster.replace_key or member.facts["key"] == cluster.key:
            continue
        hint = "give that key in slurm_munge_key, or set slurm_replace_munge_key: true, which keeps the original"
        yield f"{name} had MUNGE before, with another key than this cluster: {hint}"


def _limit(cluster: Cluster) -> Iterator[str]:
    if cluster.leads:
        return
    there = owned_lines(cluster.conf)
    new = [name for name in cluster.nodes if name in cluster.present and name not in there]
    if not there:
        yield f"{cluster.controller} is not configured yet: {EXTRA % cluster.controller}"
    elif new:
        yield f"{cluster.controller} does not know {', '.join(new)} yet: {EXTRA % cluster.controller}"


def outside(cluster: Cluster) -> list[str]:
    """Nodes that the play does not have; they keep the configuration that they have."""
    return [name for name in cluster.nodes if name not in cluster.present]


def _present_nodes(cluster: Cluster) -> list[str]:
    return [name for name in cluster.nodes if name in cluster.present and name in cluster.members]


def without_hardware(cluster: Cluster) -> list[str]:
    """Nodes of the play that cannot say their hardware, because slurmd is not installed yet."""
    return [name for name in _present_nodes(cluster) if not cluster.members[name].facts["hardware"]]


def result(cluster: Cluster) -> dict[str, Any]:
    """All that the role needs, as ddp.play.slurm_cluster returns it."""
    nodes = lines(cluster, cluster.conf, "node")
    controller = cluster.members.get(cluster.controller)
    return {
        "problems": problems(cluster),
        "controller": cluster.controller,
        "controller_name": controller.hostname if controller else cluster.controller,
        "controller_address": controller.address if controller else cluster.controller,
        "accounting_address": next(iter(cluster.addresses.values()), ""),
        "leads": cluster.leads,
        "conf": cluster.conf,
        "gres_conf": cluster.gres,
        "nodes": nodes,
        "node_names": node_names(nodes),
        "gres": lines(cluster, cluster.gres, "gres"),
        "cgroup": uses_cgroups(cluster),
        "key": cluster.key,
        "jobs": list(cluster.jobs),
        "present_names": [cluster.members[name].hostname for name in _present_nodes(cluster)],
        "outside": outside(cluster),
        "without_hardware": without_hardware(cluster),
    }
