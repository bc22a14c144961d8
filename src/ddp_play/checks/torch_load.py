"""Load in the ranks' own torch on all hosts of a check: matrix multiplications, and all_reduce in groups of hosts.

All hosts multiply at the same time, and then reduce together. A group that is slow, wrong or hangs is searched
(`group_search`). A host without torch takes no part, with the reason; one whose program does not start neither.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.metric_series import is_number
from ddp_play.checks.fleet import NOT_OURS
from ddp_play.checks.group_search import Blamed, Culprit, search
from ddp_play.checks.host_orders import TimedOrders
from ddp_play.checks.pair_samples import CPU_LIMIT
from ddp_play.checks.peer_addresses import sampled_ports
from ddp_play.checks.relative_rule import too_low
from ddp_play.checks.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddp_play.checks.group_search import Group
    from ddp_play.checks.peer_addresses import PeerNetwork

MULTIPLY = {"size": 1024, "seconds": 1.5}
SIZES = (1 << 20, 16 << 20)
GROUP_TIMEOUT_S = 15.0  # of torch: a group that hangs costs so much
# Seconds of a program: torch is loaded, which takes several on a busy host, and most of a minute from a slow disk.
PROGRAM_S, GROUP_S, LEAST_S = 90.0, 30.0, 12.0
ANSWER_S = 12.0  # for an answer to arrive after the program has ended
CONTAINER_S = 35.0  # more than that: for the engine to make, start and remove a container
NUMBERS = ("gflops", "gflops_per_cpu", "cpu_share")
SIZE_NUMBERS = ("bytes", "seconds", "wrong", "busbw_gb_s")
MOST_PARTS = 80  # of an answer: a host has fewer GPUs
MOST_PORTS = 3  # that are tried, one after the other, where runs have those before
NO_TIME = "no time left of --within"
NO_END = "no end within"  # of `guard.rank_program`
MBPS = 8000.0  # of a GB/s


# Figures of the file of thresholds, and what they are called in an answer.
FIELDS = {"speed of processors": "gflops_per_cpu", "time on processors": "cpu_share", "speed of gpus": "gflops"}
CPU_FIGURES = ("speed of processors", "time on processors")


class Talks(TimedOrders, Protocol):
    """Orders of which some are left out for want of time."""

    def has_time(self, least_s: float) -> bool:
        """Is there time for what needs at least so many seconds?"""


class Containers(Protocol):
    """Containers as those of the job's ranks."""

    def fields(
        self, name: str, source: str, order: Mapping[str, Any], *, limit_s: float, python: str = ""
    ) -> dict[str, Any]:
        """Fields of the order that runs a program in one on this host."""


@dataclass
class TorchLoad:
    """The load on these hosts. `least_busbw`: GB/s that a group has at least; 0 where nobody knows.

    `containers`: in which programs run; None: ranks are processes.
    """

    talk: Talks
    pythons: dict[str, str]
    network: PeerNetwork
    ports: tuple[int, ...]
    least_busbw: float = 0.0
    containers: Containers | None = None
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by host, of each time it was asked
    groups: list[dict[str, Any]] = field(default_factory=list)
    num_asked: int = 0
    is_short: bool = False  # programs had less time than they may need: an end of it says nothing

    def measure(self) -> dict[str, Any]:
        """The document: what each host answered, each group, and the result of the search."""
        addresses = dict(self.network.addresses)
        meeting = tuple(host for host in self.pythons if host in addresses)
        if not self.talk.has_time(LEAST_S):
            return self._document(Culprit(Blamed.NOT_RUN, tuple(self.pythons)), NO_TIME)
        multiply = {host: {"multiply": MULTIPLY} for host in self.pythons}
        self._ask(multiply, (meeting,) if len(meeting) > 1 else (), PROGRAM_S)
        if self._suspects() and self.talk.has_time(LEAST_S):
            self._ask(multiply, (), PROGRAM_S)
        able = tuple(host for host in meeting if self._has_started(host))
        if len(able) < 2:
            return self._document(Culprit(Blamed.NOT_RUN, able), "fewer than two hosts have torch and a common network")
        whole = self._is_well(meeting) if able == meeting else None
        culprit = search(able, self._run_groups, whole=whole)
        return self._document(culprit, self._why_not_run() if culprit.blamed is Blamed.NOT_RUN else "")

    def _why_not_run(self) -> str:
        busy = [answer["problem"] for rows in self.answers.values() for answer in rows if answer.get("busy")]
        return str(busy[-1]) if busy else NO_TIME

    def _suspects(self) -> set[str]:
        """Hosts that were slow once: all multiply again, because one measurement alone says little."""
        found: set[str] = set()
        for figure in FIELDS:
            values = {host: value for host, rows in self.answers.items() if (value := best(rows, figure)) is not None}
            found |= set(too_low(values, figure).low if values else ())
        return found

    def _run_groups(self, groups: Sequence[Group]) -> dict[Group, bool | None]:
        if not self.talk.has_time(LEAST_S):
            return dict.fromkeys(groups)
        self._ask({host: {} for group in groups for host in group}, groups, GROUP_S)
        return {group: self._is_well(group) for group in groups}

    def once(self, work: Mapping[str, Mapping[str, Any]], load_s: float) -> dict[str, Any] | None:
        """This work of so many seconds on each host, and all_reduce of those that are left; the row of this group."""
        addresses = dict(self.network.addresses)
        meeting = tuple(host for host in work if host in addresses and host not in self.talk.lost)
        self._ask(work, (meeting,) if len(meeting) > 1 else (), PROGRAM_S + load_s)
        return self.groups[-1] if len(meeting) > 1 else None

    def _ask(self, work: Mapping[str, Mapping[str, Any]], groups: Sequence[Group], usual_s: float) -> None:
        """One program on each of these hosts, with its parts of the order; again where a run has a group's port."""
        answers: dict[str, dict[str, Any]] = {}
        for at in range(min(MOST_PORTS, len(self.ports))):
            limit_s, began = self.talk.cap_s(usual_s), time.monotonic()
            self.is_short = limit_s < usual_s
            orders, ports = self._orders(work, groups, at)
            found = self._run(orders, ports, limit_s)
            answers = {host: _value(found.get(host), self.talk.lost.get(host)) for host in orders}
            is_busy = any(answers[head].get("busy") for head in ports)
            if not is_busy or not self.talk.has_time(max(LEAST_S, 1.2 * (time.monotonic() - began))):
                break
        self.num_asked += 1
        for host, answer in answers.items():
            self.answers.setdefault(host, []).append(answer)
        self.groups += [self._group_row(group) for group in groups]

    def _orders(
        self, work: Mapping[str, Mapping[str, Any]], groups: Sequence[Group], at: int
    ) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
        """By host its order, and by the first host of each group its port: another one at each try."""
        orders: dict[str, dict[str, Any]] = {host: dict(parts) for host, parts in work.items()}
        ports: dict[str, int] = {}
        for group in groups:
            head, port = group[0], self.ports[(self.num_asked * 5 + at + len(ports)) % len(self.ports)]
            ports[head] = port
            for rank, host in enumerate(group):
                orders[host]["group"] = self._group_order(group, rank, port)
        return orders, ports

    def _run(self, orders: Mapping[str, dict[str, Any]], ports: Mapping[str, int], limit_s: float) -> dict[str, Any]:
        """The program on these hosts, at the same time; each answers what it printed."""
        pythons = self.pythons
        source = (collection_root() / "trainer" / "host_check.py").read_text(encoding="utf-8")
        if self.containers is None:
            own = {"source": source, "limit_s": limit_s}
            fields = {host: {**own, "python": pythons[host], "order": order} for host, order in orders.items()}
        else:
            made = self.containers.fields
            fields = {
                host: made(host, source, order, limit_s=limit_s, python=pythons[host]) for host, order in orders.items()
            }
        kind, answer_s = ("check_torch", ANSWER_S) if self.containers is None else ("container_run", CONTAINER_S)
        fields = {host: {**row, "port": ports.get(host)} for host, row in fields.items()}
        return self.talk.documents(kind, fields, limit_s=limit_s + answer_s)

    def _group_order(self, group: Group, rank: int, port: int) -> dict[str, Any]:
        return {
            "rank": rank, "world": len(group), "address": dict(self.network.addresses)[group[0]], "port": port,
            "interface": dict(self.network.interfaces)[group[rank]], "sizes": list(SIZES), "timeout_s": GROUP_TIMEOUT_S,
        }  # fmt: skip

    def _group_row(self, group: Group) -> dict[str, Any]:
        """A group with the sizes as its first host saw them, and the first problem."""
        parts = {host: _part(self.answers[host][-1], "group") for host in group}
        problems = [f"{host}: {part['problem']}" for host, part in parts.items() if "problem" in part]
        sizes = list(parts[group[0]].get("sizes", ()))
        wrong = sum(int(row["wrong"]) for part in parts.values() for row in part.get("sizes", ()))
        if wrong:
            problems.insert(0, f"{wrong} wrong values")
        busbw = float(sizes[-1]["busbw_gb_s"]) if sizes else 0.0
        if not problems and self.least_busbw and busbw < self.least_busbw:
            problems.append(f"{busbw:.3g} GB/s, expected at least {self.least_busbw:.3g}")
        backend = str(parts[group[0]].get("backend", ""))
        return {"hosts": list(group), "backend": backend, "sizes": sizes, "problem": "; ".join(problems[:2])}

    def _is_well(self, group: Group) -> bool | None:
        """Whether the group was well; None if it had too little time, or no port."""
        if self.answers[group[0]][-1].get("busy"):
            return None
        row = next(row for row in reversed(self.groups) if tuple(row["hosts"]) == group)
        return None if self.is_short and NO_END in row["problem"] else not row["problem"]

    def _has_started(self, host: str) -> bool:
        return "problem" not in _part(self.answers[host][0], "start")

    def _document(self, culprit: Culprit, reason: str) -> dict[str, Any]:
        return {
            "hosts": {
                host: [row for row in rows if _has(row, "multiply") or row is rows[0]]
                for host, rows in self.answers.items()
            },
            "groups": self.groups,
            "least_busbw": self.least_busbw,
            "blamed": str(culprit.blamed),
            "blamed_hosts": list(culprit.hosts),
            "reason": reason,
        }


def _value(answer: Mapping[str, Any] | None, lost: str | None) -> dict[str, Any]:
    """The program's own answer, or the problem."""
    row = (answer or {}).get("program")
    if not isinstance(row, dict):
        return {"parts": [], "problem": lost or "no answer"}
    value = row.get("value")
    if not isinstance(value, dict) or not isinstance(value.get("parts"), list):
        return {"parts": [], "problem": str(row.get("problem", "no answer"))[:400]}
    parts = [_checked(part) for part in value["parts"] if isinstance(part, dict)]
    kept: dict[str, Any] = {name: _numbers(value[name]) for name in ("before", "after") if name in value}
    kept |= {"seconds": value["seconds"]} if is_number(value.get("seconds")) else {}
    kept |= {"problem": str(value["problem"])[:400]} if value.get("problem") else {}
    kept |= {"busy": True} if value.get("busy") is True else {}
    return {**kept, "parts": parts[:MOST_PARTS]}


def _numbers(counters: object) -> dict[str, float]:
    """Counters of an answer, as far as they are numbers."""
    rows = counters if isinstance(counters, dict) else {}
    return {str(name): value for name, value in rows.items() if is_number(value)}


def _checked(part: dict[str, Any]) -> dict[str, Any]:
    """A part of an answer, or the problem that it has another form than our program gives it."""
    wanted = {"multiply": NUMBERS, "group": ()}.get(str(part.get("part")), ())
    sizes = part.get("sizes", [])
    rows = sizes if isinstance(sizes, list) and len(sizes) <= MOST_PARTS else [None]
    is_ours = all(is_number(part.get(name)) for name in wanted) and all(
        isinstance(row, dict) and all(is_number(row.get(name)) for name in SIZE_NUMBERS) for row in rows
    )
    if is_ours and "problem" not in part:
        return part
    problem = part.get("problem", NOT_OURS)
    return {"part": str(part.get("part"))[:20], "problem": str(problem)[:400]}


def _has(answer: Mapping[str, Any], name: str) -> bool:
    return any(isinstance(row, dict) and row.get("part") == name for row in answer["parts"])


def best(answers: Sequence[Mapping[str, Any]], figure: str) -> float | None:
    """The best value of a host, of all times that it was asked; of its slowest GPU. None without any."""
    found = []
    for answer in answers:
        rows = [row for row in answer["parts"] if row.get("part") == "multiply" and FIELDS[figure] in row]
        rows = [row for row in rows if (row.get("device") == "cpu") == (figure in CPU_FIGURES)]
        if rows:
            found.append(min(float(row[FIELDS[figure]]) for row in rows))
    return max(found, default=None)


def _part(answer: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a part has found; without it, the problem of the program."""
    for row in answer["parts"]:
        if isinstance(row, dict) and row.get("part") == name:
            return row
    return {"problem": str(answer.get("problem") or "it printed nothing")[:400]}


def least_busbw(matrix: Mapping[str, Any] | None) -> float:
    """GB/s that a group has at least, from what the network carried; 0 where nobody knows that."""
    rows = [row for row in (matrix or {}).get("directions", ()) if row["mbps"]]
    if not rows or 2 * sum(row.get("busy", 0.0) > CPU_LIMIT for row in rows) > len(rows):
        return 0.0
    usual = statistics.median(row["mbps"] for row in rows)
    return float(thresholds().relative("all_reduce").least_share * usual / MBPS)


def load_of(
    talk: Talks,
    pythons: dict[str, str],
    network: PeerNetwork,
    port_range: tuple[int, int],
    *,
    matrix: Mapping[str, Any] | None,
    containers: Containers | None = None,
) -> TorchLoad:
    """The load on all hosts that have torch for their ranks."""
    return TorchLoad(talk, pythons, network, sampled_ports(*port_range), least_busbw(matrix), containers)
