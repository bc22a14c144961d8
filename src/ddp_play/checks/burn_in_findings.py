"""Findings of a burn-in: bands of figures over time, what held hosts back, and results that were not the same. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.summary import counted, duration
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import BURN_IN, CheckedHost, Compared, Fleet, NotRun, compare, each, names, not_run, ok
from ddp_play.checks.host_users import used_by
from ddp_play.checks.thresholds import thresholds
from ddp_play.checks.torch_findings import few_gpus, num_gpus, torch_problem
from ddp_play.checks.torch_load import CPU_FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROUNDS, TIME, BITS, EQUAL = BURN_IN, "speed over time", "repeated results", "results of equal hosts"
ON_CPUS, HOT, GROUP = "processors over time", "throttling", "collectives over time"
NO_ROUND = "there was no time for a round: give --within more"
LEAST_ROUNDS = 6  # of fewer, a third is no median
SAME = Compared(
    EQUAL, "ranks compute wrong gradients without any error", Status.FAIL,
    "nvidia-smi -q -d ECC,ROW_REMAPPER; journalctl -k -p err", "have the part replaced, after the same again",
    shown=lambda digest: f"bits {digest}",
)  # fmt: skip


def rounds(fleet: Fleet) -> Iterator[Finding]:
    """How many rounds there were, and what is missing of the time."""
    document = fleet.burn_in if fleet.burn_in and fleet.burn_in["rounds"] else None
    for host in fleet.reached:
        if document is None or host.name not in document["hosts"]:
            problem = torch_problem(fleet, host)
            why_not = fleet.late or NO_ROUND if document is None else "it took no part"
            why = problem or used_by(host.known, host.readings) or why_not
            yield not_run(ROUNDS, host.name, why, broken=not problem)
    if document is not None:
        yield from _to_the_end(_taking_part(fleet), document)


def _to_the_end(hosts: Fleet, document: Mapping[str, Any]) -> Iterator[Finding]:
    """Hosts that were there until the time was up, and those that were not, which never pass."""
    total = document["rounds"]
    text = f"{counted(total, 'round')}, the last began after {duration(document['began_s'][-1])}"
    for host in hosts.reached:
        if host.lost:
            well = total - document["hosts"][host.name]["failed"]
            yield not_run(ROUNDS, host.name, f"{host.lost}: it was well in {_of(well, total)}", broken=True)
        elif document["ended"]:
            yield not_run(ROUNDS, host.name, f"{document['ended']} after {text}", broken=True)
    there = tuple(host.name for host in hosts.reached if not host.lost)
    if there and not document["ended"]:
        yield Finding(ROUNDS, Status.OK, text, where=there)


def over_time(fleet: Fleet) -> Iterator[Finding]:
    """Each figure of each host against its own median, and its last third against its first one."""
    hosts = _taking_part(fleet)
    on_gpus = any(_has(_row(fleet, host), "speed of gpus") for host in hosts.reached)
    yield from each(hosts, "programs over time", lambda host: _programs(host, fleet))
    figure = "speed of gpus" if on_gpus else CPU_FIGURES[0]
    yield from each(hosts, TIME, lambda host: _band(_row(fleet, host), figure))
    if not on_gpus:
        yield from each(hosts, ON_CPUS, lambda host: _band(_row(fleet, host), CPU_FIGURES[1]))
    yield from each(hosts, HOT, lambda host: _held(_row(fleet, host)))
    yield from _group(fleet)


def same_bits(fleet: Fleet) -> Iterator[Finding]:
    """Repeats on one host, and hosts with the same parts."""
    hosts = _taking_part(fleet)
    yield from each(hosts, BITS, lambda host: _bits(_row(fleet, host)))
    kinds: dict[str, dict[str, str]] = {}
    for host in hosts.reached:
        for kind, counts in _row(fleet, host)["digests"].items():
            if counts:
                kinds.setdefault(kind, {})[host.name] = max(counts, key=lambda digest: counts[digest])
    for values in kinds.values():
        if len(values) > 1:
            yield from compare(SAME, values)


def _taking_part(fleet: Fleet) -> Fleet:
    document = fleet.burn_in or {"hosts": {}}
    return Fleet(tuple(host for host in fleet.reached if host.name in document["hosts"]))


def _row(fleet: Fleet, host: CheckedHost) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (fleet.burn_in or {})["hosts"][host.name]
    return found


def _has(row: Mapping[str, Any], figure: str) -> bool:
    return any(value is not None for value in row["figures"][figure])


def _programs(host: CheckedHost, fleet: Fleet) -> Finding:
    """Rounds in which the program, or a part of it, failed."""
    row, total = _row(fleet, host), (fleet.burn_in or {})["rounds"]
    if gone := _gone(row):
        return gone
    failed = int(row["failed"])
    used, wanted = max((number for number in row["gpus"] if number is not None), default=0), num_gpus(fleet, host)
    if used < wanted and failed < total:
        raise NotRun(few_gpus(used, wanted), broken=True)
    if not failed:
        return ok(counted(total, "round"))
    number, text = row["problems"][0]
    if failed >= total:
        raise NotRun(f"{text} (in each round)", broken=True)
    return Finding(
        "", Status.WARN, f"failed in {_of(failed, total)}, first in round {number}: {text}",
        "so would a rank, some time", "look at the message, and at the kernel's log", limit="no round",
        source="the program of each round", look="journalctl -k -n 50",
    )  # fmt: skip


def _gone(row: Mapping[str, Any]) -> Finding | None:
    """The first round in which the program had fewer GPUs than in another."""
    used = [(number, at) for at, number in enumerate(row["gpus"], 1) if number is not None]
    most = max(used, default=(0, 0))[0]
    low = [(number, at) for number, at in used if number < most]
    if not low:
        return None
    return Finding(
        "", Status.FAIL, f"{low[0][0]} of {most} GPUs in round {low[0][1]}, fewer in {_of(len(low), len(used))}",
        "ranks without a GPU fail", "reset the GPU or reboot; have it replaced if it vanishes again",
        limit=f"{most} GPUs", source="the program of each round",
        look="nvidia-smi -L; journalctl -k -g 'NVRM|Xid' -n 50",
    )  # fmt: skip


def _band(row: Mapping[str, Any], figure: str) -> Finding | None:
    """First, last and slowest round. None: the host has no such device."""
    values = [float(value) for value in row["figures"][figure] if value is not None]
    if not values:
        return None
    rule, middle = thresholds().relative(figure), statistics.median(values)
    is_part = figure == CPU_FIGURES[1]

    def shown(value: float) -> str:
        return f"{value:.0%}" if is_part else f"{value:,.1f} {rule.unit}"

    text = f"first {shown(values[0])}, last {shown(values[-1])}, slowest {shown(min(values))}, median {shown(middle)}"
    source = f"{rule.least_share:.0%} of its own median of {len(values)} rounds; {rule.source}"
    fall = _fall(values)
    if fall is not None and fall < rule.least_share:
        return _slower(f"the last third has {fall:.0%} of the first: {text}", shown(rule.least_share * middle), source)
    least = rule.least_of(values)
    low = [at for at, value in enumerate(row["figures"][figure], 1) if value is not None and value < least]
    if low and len(values) >= LEAST_ROUNDS:
        said = f"slow in {_of(len(low), len(values))} (round {_numbers(low)}): {text}"
        return _slower(said, shown(least), source)
    return ok(text)


def _slower(text: str, limit: str, source: str) -> Finding:
    return Finding(
        "", Status.WARN, text, "the slowest rank decides the speed of all",
        "look for throttling (cooling, power limits), and for what else runs there", limit=limit, source=source,
        look="nvidia-smi -q -d CLOCK,PERFORMANCE; cpupower monitor; top -b -n 1 | head -20",
    )  # fmt: skip


def _fall(values: Sequence[float]) -> float | None:
    """Median of the last third as a part of that of the first; None of few rounds."""
    third = len(values) // 3
    if len(values) < LEAST_ROUNDS:
        return None
    return statistics.median(values[-third:]) / max(statistics.median(values[:third]), 1e-9)


def _held(row: Mapping[str, Any]) -> Finding:
    """Rounds in which a quota or the temperature held the processors back."""
    texts, total = [], len(row["counted"]["times_too_hot"])
    for name, said in (("times_held_back", "a CPU quota held it back"), ("times_too_hot", "processors were too hot")):
        if number := sum(rise > 0 for rise in row["counted"][name]):
            texts.append(f"{said} in {_of(number, total)}")
    if not texts:
        return ok("none")
    return Finding(
        "", Status.WARN, "; ".join(texts), "the slowest rank decides the speed of all",
        "improve the cooling, or remove the quota", limit="none", source="counters of the kernel",
        look="grep . /sys/devices/system/cpu/cpu*/thermal_throttle/*_count; cat /sys/fs/cgroup/cpu.stat",
    )  # fmt: skip


def _bits(row: Mapping[str, Any]) -> Finding:
    """Repeats of one calculation on one host, and the product whose values are known."""
    if row["wrong"]:
        number, device, text = row["wrong"][0]
        more = f", and {len(row['wrong']) - 1} more" if len(row["wrong"]) > 1 else ""
        return Finding(
            "", Status.FAIL, f"{device}: {text} (round {number}{more})",
            "ranks compute wrong gradients without any error", "have the part replaced, after the same again",
            limit="equal bits", source=f"{row['repeats']} repeats of one calculation", look=SAME.look,
        )  # fmt: skip
    if not row["repeats"]:
        raise NotRun("no repeat has ended", broken=True)
    on = f" on {row['cpus']} CPUs" if row["cpus"] > 1 else ""
    return ok(f"equal bits in {row['repeats']} repeats{on}")


def _group(fleet: Fleet) -> Iterator[Finding]:
    document = fleet.burn_in
    hosts = tuple(host.name for host in _taking_part(fleet).reached)
    if document is None or len(hosts) < 2:
        return
    values = [float(value) for value in document["group"]["busbw"] if value is not None]
    problems, total = document["group"]["problems"], document["rounds"]
    if problems:
        number, text = problems[0]
        yield Finding(
            GROUP, Status.WARN, f"not well in {_of(len(problems), total)}, first in round {number}: {text}",
            "a job waits for its slowest rank", "look at the network's findings first", hosts, limit="no round",
            source="all_reduce of all hosts in each round", look="ddp-play collectives -i INVENTORY --limit HOSTS",
        )  # fmt: skip
    elif values:
        text = f"first {values[0]:.3g}, last {values[-1]:.3g}, slowest {min(values):.3g} GB/s busbw on {names(hosts)}"
        yield Finding(GROUP, Status.OK, text, where=hosts)


def _of(number: int, total: int) -> str:
    return f"{number} of {counted(total, 'round')}"


def _numbers(values: Sequence[int]) -> str:
    more = len(values) - 3
    return ", ".join(map(str, values[:3])) + (f" and {more} more" if more > 0 else "")
