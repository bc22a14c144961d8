"""Comparison of hosts with their own records, as findings and as a table; and which hosts get a new record. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks import host_records
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import NotRun, names
from ddp_play.checks.pair_findings import suspected
from ddp_play.checks.pair_yardsticks import OWN_RECORD
from ddp_play.checks.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddp_play.checks.fleet import CheckedHost, Fleet
    from ddp_play.checks.host_records import Record

CHECK, FLOOR = "own record", "known hardware"
PORTS = ("link speed: ", "rdma rate: ")  # without a figure there is no link
COMPARED, EXPIRED, NONE, UNKNOWN = "compared", "expired", "none", "unknown"
WHY = "the host was better with the same parts and versions"
RECORD = "ddp-play check -i INVENTORY --limit HOSTS --level full --record"
AGAIN = f"find out what has changed; if it is meant to be so: {RECORD}"
DAY = 10  # characters of a date
TWICE = "another host has the same machine id"
SLOW_ONCE = "slow in the network, and there was no time to measure it again"


def number(value: float) -> str:
    """A figure for people, never with an exponent where it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure now and as recorded."""

    figure: str
    unit: str
    then: float
    now: float
    limit: float
    source: str
    worse: bool

    @property
    def share(self) -> float:
        """The value now as a part of the recorded one."""
        return self.now / self.then if self.then else 1.0

    def text(self) -> str:
        """`rate: h2 410 Mb/s, recorded 940 (44 %)`."""
        now, then = number(self.now), number(self.then)
        return f"{self.figure} {now} {self.unit}".rstrip() + f", recorded {then} ({self.share:.0%})"


@dataclass(frozen=True, slots=True)
class ComparedHost:
    """A host and its record. `reason`: why there is no comparison."""

    host: str
    state: str
    made: str = ""
    reason: str = ""
    gone: tuple[str, ...] = ()  # recorded parts that are missing
    figures: tuple[ComparedFigure, ...] = ()

    @property
    def farthest(self) -> ComparedFigure | None:
        """The figure that is farthest from its record; None if all are as recorded."""
        return max((row for row in self.figures if row.share != 1), key=lambda row: abs(1 - row.share), default=None)

    def to_json(self) -> dict[str, Any]:
        """Row of the document for `--json`."""
        row = asdict(self)
        row["figures"] = [{**asdict(figure), "share": round(figure.share, 4)} for figure in self.figures]
        return row


def compare(fleet: Fleet, records: Mapping[str, Record]) -> tuple[ComparedHost, ...]:
    """Every host that answered, with its record."""
    rates = host_records.recorded_rates(fleet, records)
    twice = _twice(fleet)
    return tuple(_compared(host, fleet, records, (rates, twice)) for host in fleet.reached)


def _twice(fleet: Fleet) -> set[str]:
    """Machine ids that more than one host has: a record of them would be of either."""
    found = Counter(own.machine for own in host_records.identities(fleet).values())
    return {machine for machine, number in found.items() if number > 1}


def _compared(
    host: CheckedHost, fleet: Fleet, records: Mapping[str, Record],
    known: tuple[Mapping[tuple[str, str], Mapping[str, Any]], set[str]],
) -> ComparedHost:  # fmt: skip
    rates, twice = known
    try:
        own = host_records.identity_of(host)
        if own.machine in twice:
            return ComparedHost(host.name, UNKNOWN, reason=TWICE)
        record = records.get(own.machine)
        if record is None:
            return ComparedHost(host.name, NONE, reason="no record was made")
        if changed := record.changed(own.parts, own.versions):
            return ComparedHost(host.name, EXPIRED, record.made, changed, record.gone(own.parts))
        with host_records.sound_answer():
            figures = tuple(_figures(host, fleet, record, rates))
        return ComparedHost(host.name, COMPARED, record.made, figures=figures)
    except NotRun as missing:
        return ComparedHost(host.name, UNKNOWN, reason=missing.reason)


def _figures(
    host: CheckedHost, fleet: Fleet, record: Record, rates: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[ComparedFigure]:
    now = host_records.figures_of(host)
    for figure, then in record.figures.items():
        if figure in now or figure.startswith(PORTS):
            yield from _figure(figure, then, now.get(figure, 0.0))
    for row in host_records.directions(fleet):
        then_row = rates.get((row["source"], row["target"]))
        if row["source"] == host.name and then_row:
            yield from _figure(f"rate: {row['target']}", then_row["mbps"], row["mbps"])
            yield from _figure(f"round trip: {row['target']}", then_row["rtt_ms"], row.get("rtt_ms"))


def _figure(figure: str, then: float | None, now: float | None) -> Iterator[ComparedFigure]:
    limit = thresholds().record_limit(figure)
    if limit is not None and then and now is not None:
        worse = limit.is_worse(now, then)
        yield ComparedFigure(figure, limit.unit, then, now, round(limit.of(then), 3), limit.source, worse)


def findings(fleet: Fleet, compared: tuple[ComparedHost, ...]) -> Iterator[Finding]:
    """What is worse than recorded, what was compared, and what could not be. Nothing where no host has a record."""
    if any(row.state in (COMPARED, EXPIRED) for row in compared):
        blamed = _blamed(fleet)
        for row in compared:
            yield from _of_host(row, blamed)
    for host in fleet.reached:
        yield from _floors(host)


def _blamed(fleet: Fleet) -> set[str]:
    """Hosts of which the network matrix says already that their rates are below their records."""
    verdicts = fleet.matrix["verdicts"] if fleet.matrix else []
    return {host for row in verdicts if any(OWN_RECORD in item["source"] for item in row["evidence"])
            for host in row["hosts"]}  # fmt: skip


def _of_host(row: ComparedHost, blamed: set[str]) -> Iterator[Finding]:
    if row.gone:
        yield Finding(
            CHECK, Status.WARN, f"gone since {row.made[:DAY]}: {names(row.gone)}",
            "a part has failed, or was taken out", AGAIN, (row.host,), limit="the parts of the record",
            source=f"record of {row.made[:DAY]}",
            look="nvidia-smi -L; ip -brief link; ls /sys/class/infiniband",
        )  # fmt: skip
    if row.state != COMPARED:
        reason = f"record of {row.made[:DAY]} expired: {row.reason}" if row.state == EXPIRED else row.reason
        yield Finding(CHECK, Status.UNCHECKED, reason, WHY, RECORD, (row.host,))
        return
    worse = [figure for figure in row.figures if figure.worse and not _is_said(figure, row.host, blamed)]
    for figure in worse:
        what = figure.figure.partition(": ")[2]
        yield Finding(
            CHECK, Status.WARN, figure.text(), WHY, AGAIN, (row.host,),
            directions=((row.host, what),) if figure.figure.startswith(("rate: ", "round trip: ")) else (),
            limit=f"{number(figure.limit)} {figure.unit}".rstrip(),
            source=f"{figure.source}; record of {row.made[:DAY]}",
            look=f"ddp-play check -i INVENTORY --limit {row.host} --json | jq .records",
        )  # fmt: skip
    if not any(figure.worse for figure in row.figures):
        far = row.farthest
        text = f"; farthest: {far.text()}" if far is not None else ""
        yield Finding(CHECK, Status.OK, f"{len(row.figures)} figures as on {row.made[:DAY]}{text}", where=(row.host,))


def _is_said(figure: ComparedFigure, host: str, blamed: set[str]) -> bool:
    kind, _, peer = figure.figure.partition(": ")
    return kind == "rate" and bool({host, peer} & blamed)


def _floors(host: CheckedHost) -> Iterator[Finding]:
    """GPUs that have less memory than their kind; nothing is said of kinds that nobody knows."""
    for gpu in host.known.gpus:
        floor = thresholds().floor("gpu memory", gpu.model)
        if floor is not None and gpu.memory_mib < floor.floor:
            yield Finding(
                FLOOR, Status.WARN, f"GPU {gpu.index}, {gpu.model}: {gpu.memory_mib} {floor.unit} of memory",
                "a rank gets less memory than on the others", "nvidia-smi -q -d MEMORY,ECC; look for MIG or a vGPU",
                (host.name,), limit=f"{floor.floor:g} {floor.unit}", source=floor.source,
                look="nvidia-smi --query-gpu=index,name,memory.total,mig.mode.current --format=csv",
            )  # fmt: skip


def new_records(
    fleet: Fleet, found: tuple[Finding, ...], old: Mapping[str, Record], made: tuple[str, str]
) -> tuple[tuple[Record, ...], dict[str, str]]:
    """Records of hosts that are well, and why others get none. `made`: level of the check, and time.

    A host with a failed check would make its fault the measure of later ones.
    """
    level, when = made
    records, refused = [], {}
    twice, slow = _twice(fleet), suspected(fleet.matrix) if fleet.matrix else set()
    for host in fleet.hosts:
        failed = sorted({row.check for row in found if row.status is Status.FAIL and host.name in row.where})
        if failed or host.name in slow:
            refused[host.name] = f"failed: {', '.join(failed)}" if failed else SLOW_ONCE
            continue
        try:
            new = host_records.record_of(host, fleet, level, when)
        except NotRun as missing:
            refused[host.name] = missing.reason
            continue
        if new.machine in twice:
            refused[host.name] = TWICE
            continue
        records.append(host_records.merged(new, old.get(new.machine)))
    return tuple(records), refused
