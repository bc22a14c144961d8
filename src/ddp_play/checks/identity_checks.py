"""Checks of identity, names and clocks: what must differ between hosts, and what must be the same. Pure."""

from __future__ import annotations

import ipaddress
import statistics
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import (
    LEAST_TO_COMPARE,
    CheckedHost,
    Compared,
    Fleet,
    NotRun,
    different_everywhere,
    each,
    ok,
)
from ddp_play.checks.fleet import names as names_of
from ddp_play.checks.peer_addresses import duplicate_addresses, same_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WARN, FAIL = Status.WARN, Status.FAIL
SLOW_S = 1.0
# As the plan of a job warns; logs of ranks are compared by time, and certificates are valid from a time on.
CLOCK_WARN_S, CLOCK_FAIL_S = 0.5, 2.0

CLONE = "a copied disk image: what goes by this id takes two hosts for one"
RULES = (
    Compared("host name", CLONE, FAIL, "hostname", "hostnamectl set-hostname NAME on one of them"),
    Compared("machine id", CLONE, FAIL, "cat /etc/machine-id",
             "rm /etc/machine-id /var/lib/dbus/machine-id; systemd-machine-id-setup; then reboot one of them"),
    Compared("ssh host keys", "who has one of these hosts can pretend to be the other", FAIL,
             "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
             "on one of them: rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh; here: ssh-keygen -R HOST"),
    Compared("MAC addresses", "a switch sends the packets of both to one of them", FAIL, "ip -br link",
             "give one of them another address (in the machine's definition, for virtual machines)"),
    Compared("GPU ids", CLONE, FAIL, "nvidia-smi -L", "keep one of these names in the inventory"),
    Compared("RDMA ids", "the subnet manager takes two adapters for one", FAIL, "ibstat", "have the GUID of one set"),
)  # fmt: skip


def identity(fleet: Fleet) -> Iterator[Finding]:
    """Every machine has ids of its own, and only one name in the inventory."""
    if len(fleet.reached) < 2:
        return
    readers = (
        lambda host: [_there(host.read("identity")["hostname"], "it has no name")],
        lambda host: [_there(host.read("identity")["machine_id"], "/etc/machine-id cannot be read or is empty")],
        lambda host: _there(host.read("identity")["host_keys"], "no public key can be read in /etc/ssh"),
        lambda host: host.read("identity")["macs"].values(),
        lambda host: [gpu.uuid for gpu in host.known.gpus],
        lambda host: host.read("identity")["guids"],
    )
    for rule, reader in zip(RULES, readers, strict=True):
        yield from different_everywhere(fleet, rule, reader)
    yield from _addresses(fleet)
    yield from _machines(fleet)


def _there(value: Any, problem: str) -> Any:
    if not value:
        raise NotRun(problem, broken=False)
    return value


def _addresses(fleet: Fleet) -> Iterator[Finding]:
    found = duplicate_addresses(fleet.facts)
    for address, hosts in found.items():
        yield Finding(
            "addresses", FAIL, address, "packets to one of them arrive at the other",
            "remove it on one of them: ip address del", hosts,
            limit="its own on each host", source="the hosts' interfaces", look="ip -br address",
        )  # fmt: skip
    named = {host for hosts in found.values() for host in hosts}
    if clean := tuple(host.name for host in fleet.reached if host.name not in named):
        yield Finding("addresses", Status.OK, "its own on each host", where=clean)


def _machines(fleet: Fleet) -> Iterator[Finding]:
    same = same_machine(fleet.facts)
    everyone = tuple(host.name for host in fleet.reached)
    if not same or set(same) == {host.machine for host in fleet.facts} == set(list(same)[:1]):
        yield Finding("different machines", Status.OK, f"{len(everyone)} names", where=everyone)
        return
    for hosts in same.values():
        yield Finding(
            "different machines", FAIL, f"{names_of(hosts)} are one machine",
            "their ranks would share GPUs and addresses", "keep one of the names in the inventory", hosts,
            limit="one name for each machine", source="boot id",
            look="cat /proc/sys/kernel/random/boot_id",
        )  # fmt: skip


def naming(fleet: Fleet) -> Iterator[Finding]:
    """Names of the hosts mean the same everywhere, and the name service answers fast."""
    yield from names_of_hosts(fleet)
    yield from each(fleet, "name service", _speed)


def names_of_hosts(fleet: Fleet) -> Iterator[Finding]:
    """What each host takes its own name and those of the others for."""
    yield from own_names(fleet)
    yield from each(fleet, "names of peers", lambda host: _peer_names(host, fleet))


def own_names(fleet: Fleet) -> Iterator[Finding]:
    """Each host's own name is an address of the host."""
    count = Counter(host.hostname for host in fleet.facts)
    yield from each(fleet, "own name", lambda host: _own_name(host) if count[host.known.hostname] == 1 else None)


def _own_name(host: CheckedHost) -> Finding:
    name = host.known.hostname
    addresses = host.read("names")[name]["addresses"]
    if not addresses:
        return Finding(
            "", WARN, f"{name} has no address there", "programs that look up their own host fail",
            f"add a line for {name} to /etc/hosts", limit="an address of the host", source="getaddrinfo",
            look=f"getent ahosts {name}",
        )  # fmt: skip
    if any(ipaddress.ip_address(address).is_loopback for address in addresses):
        return Finding(
            "", WARN, f"{name} is {', '.join(addresses)}",
            "gloo binds to it, unless GLOO_SOCKET_IFNAME is set as ddp-play does: peers wait for it in vain",
            f"name the host's own address for {name} in /etc/hosts, instead of a loopback address",
            limit="an address of the host", source="getaddrinfo", look=f"getent ahosts {name}",
        )  # fmt: skip
    wrong = [address for address in addresses if address not in _own(host) and not _is_local(address)]
    if wrong:
        return _wrong(name, wrong, _own(host))
    return ok("an address of the host")


def _own(host: CheckedHost) -> set[str]:
    return {address for link in host.known.interfaces for _, address in link.networks()}


def _is_local(address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return ip.is_loopback or ip.is_link_local


def _wrong(name: str, wrong: list[str], right: set[str]) -> Finding:
    return Finding(
        "", FAIL, f"{name} is {', '.join(wrong)}", "connections by name reach another host",
        f"correct {name} in /etc/hosts or in the name service", limit=" or ".join(sorted(right - {"127.0.0.1", "::1"})),
        source="the addresses that this host has", look=f"getent ahosts {name}",
    )  # fmt: skip


def _peer_names(host: CheckedHost, fleet: Fleet) -> Finding | None:
    answers = host.read("names")
    known = [row.known.hostname for row in fleet.reached]
    peers = [row for row in fleet.reached if row is not host and known.count(row.known.hostname) == 1]
    if not peers:
        return None
    unknown = []
    for peer in peers:
        answer = answers[peer.known.hostname]
        wrong = [address for address in answer["addresses"] if address not in _own(peer)]
        if wrong:
            return _wrong(peer.known.hostname, wrong, _own(peer))
        if not answer["addresses"] and answer["error"] != "no answer":
            unknown.append(peer.known.hostname)
    if unknown and _num_knowing(unknown[0], fleet) * 2 > len(fleet.reached):
        return Finding(
            "", WARN, f"{names_of(unknown)} not found", "connections by name fail; ranks of ddp-play use addresses",
            "add them to /etc/hosts or to the name service, as on the other hosts", limit="an address of the peer",
            source="most other hosts find it", look=f"getent ahosts {unknown[0]}",
        )  # fmt: skip
    return ok("not in a name service: ranks use addresses" if unknown else "addresses of the peers")


def _num_knowing(name: str, fleet: Fleet) -> int:
    rows = [host.readings.get("names", {}).get("value", {}).get(name, {}) for host in fleet.reached]
    return sum(bool(row.get("addresses")) for row in rows)


def _speed(host: CheckedHost) -> Finding:
    answers = host.read("names")
    name = max(answers, key=lambda name: float(answers[name]["took_s"]))
    took_s, silent = float(answers[name]["took_s"]), answers[name]["error"] == "no answer"
    if took_s < SLOW_S:
        return ok(f"answers within {SLOW_S:g} s")
    return Finding(
        "", WARN, f"no answer for {name} within {took_s:g} s" if silent else f"{took_s:.1f} s for {name}",
        "logins, and each start of a program that looks up a name, wait for it",
        "correct the nameserver lines in /etc/resolv.conf", limit=f"{SLOW_S:g} s", source="ddp-play",
        look=f"time getent ahosts {name}; cat /etc/resolv.conf",
    )  # fmt: skip


def clocks(fleet: Fleet) -> Iterable[Finding]:
    """Clocks against each other. Of two hosts, this machine's clock is the third."""
    offsets = {host.name: float(host.clock["offset_s"]) for host in fleet.reached if host.clock}
    witnesses = [*offsets.values(), *([0.0] if len(offsets) < LEAST_TO_COMPARE else [])]
    middle = statistics.median(witnesses) if offsets else 0.0
    for finding in each(fleet, "clock", lambda host: _clock(host, middle)):
        of = (
            "the median of all hosts"
            if len(offsets) >= LEAST_TO_COMPARE
            else "the median of the hosts and this machine"
        )
        yield replace(finding, source=of) if finding.status not in (Status.OK, Status.UNCHECKED) else finding


def _clock(host: CheckedHost, middle: float) -> Finding:
    if not host.clock:
        raise NotRun(host.lost or host.late or "it was not asked for its time", broken=True)
    offset_s, trip_s = float(host.clock["offset_s"]) - middle, float(host.clock["trip_s"])
    certain_s = abs(offset_s) - trip_s / 2
    if certain_s <= CLOCK_WARN_S:
        return ok(f"within {CLOCK_WARN_S:g} s of the others")
    return Finding(
        "", FAIL if certain_s > CLOCK_FAIL_S else WARN, f"{offset_s:+.2f} s (± {trip_s / 2:.2f} s)",
        "logs cannot be compared, and certificates and files seem to be of the future", "chronyc makestep",
        limit=f"{CLOCK_WARN_S:g} s; fails above {CLOCK_FAIL_S:g} s", look="chronyc tracking; date +%s.%N",
    )  # fmt: skip
