"""Findings from measurements: collectives compared with torch's table, bandwidth with TCP and the link. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.plan_document import Plan

# Largest message that is judged: latency does not matter at this size, and every host has the memory.
JUDGED_BYTES = 64 << 20
# Smallest one: a traffic shaper's queue absorbs smaller messages, so that their bandwidth may exceed the link's.
LEAST_JUDGED_BYTES = 16 << 20
# torch.distributed on TCP reaches this share of plain TCP if the CPU is not the limit.
HEALTHY_SHARE = 0.95
POOR_SHARE = 0.8
MORE_THAN_TCP = 1.05
# Statuses of a collective, the worst last; all but the last are those of the trainer.
SEVERITY = ("works", "not run", "refused", "wrong", "hung", "crashed")


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """Result of one collective on one backend and device."""

    status: str  # one of SEVERITY
    documented: bool | None
    detail: str

    @property
    def differs(self) -> bool:
        """Whether the result differs from torch's documentation."""
        return self.status != "not run" and self.documented is not None and self.documented != (self.status == "works")

    @property
    def bad(self) -> bool:
        """Whether values were wrong, the collective hung or a rank crashed in it. A refusal is not bad."""
        return self.status in ("wrong", "hung", "crashed")


def collective_table(results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, CollectiveResult]]:
    """Results by collective and variant, in the order of execution. `results` maps variants to their results."""
    table: dict[str, dict[str, CollectiveResult]] = {}
    for variant, result in results.items():
        for row in result.get("collectives", ()):
            table.setdefault(row["name"], {})[variant] = CollectiveResult(
                row["status"], row.get("documented"), str(row.get("detail", ""))
            )
    return table


@dataclass(frozen=True, slots=True)
class BandwidthResult:
    """Bandwidth of an all-reduce in GB/s (10^9 bytes), compared with plain TCP and the link; None if unknown."""

    op: str
    num_bytes: int
    busbw_gb_s: float
    wire_gb_s: float | None  # plain TCP on the slowest connection of the ring of hosts, in the same run
    link_gb_s: float | None  # speed that the driver of the slowest interface reports

    @property
    def of_wire(self) -> float | None:
        """Bus bandwidth divided by the bandwidth of plain TCP."""
        return self.busbw_gb_s / self.wire_gb_s if self.wire_gb_s else None

    def to_json(self) -> dict[str, Any]:
        """For --json and the bundle."""
        return {**asdict(self), "of_wire": self.of_wire}


def bandwidth_result(result: Mapping[str, Any], plan: Plan) -> BandwidthResult | None:
    """Bandwidth of the all_reduce that is judged: the largest from 16 to 64 MiB. None if there is none."""
    rows: list[dict[str, Any]] = next(
        (sweep["rows"] for sweep in result.get("sweeps", ()) if sweep["op"] == "all_reduce"), []
    )
    large = [row for row in rows if LEAST_JUDGED_BYTES <= row["bytes"] <= JUDGED_BYTES]
    if not large:
        return None
    row = large[-1]
    wires = [wire["gb_s"] for wire in result.get("wires", ())]
    speeds = [host.speed_mbps for host in plan.hosts if host.speed_mbps]
    known = plan.fabric != "local" and len(speeds) == len(plan.hosts)
    return BandwidthResult(
        op="all_reduce",
        num_bytes=row["bytes"],
        busbw_gb_s=row["busbw_gb_s"],
        wire_gb_s=min(wires) if wires else None,
        link_gb_s=min(speeds) / 8000 if known else None,
    )


def bandwidth_verdict_lines(found: BandwidthResult | None, plan: Plan, *, backend: str) -> list[str]:
    """Verdict as text: the bandwidth compared with plain TCP and the link, and likely causes if it is low."""
    if found is None:
        return ["no verdict: all_reduce was not measured between 16 and 64 MiB"]
    size = f"{found.num_bytes >> 20} MiB"
    lines = [f"{found.op} of {size}: bus bandwidth {rate(found.busbw_gb_s)}"]
    if plan.fabric == "local":
        return [*lines, "all ranks are on one machine: no link was measured"]
    if found.wire_gb_s is None:
        lines.append("plain TCP between the hosts was not measured, so there is no comparison with it")
    elif found.of_wire is not None:
        lines.append(
            f"plain TCP carried {rate(found.wire_gb_s)} in the same run; {_comparison_with_tcp(found, backend)}"
        )
    lines.append(_link_line(found, plan))
    return lines


def _comparison_with_tcp(found: BandwidthResult, backend: str) -> str:
    share = found.of_wire or 0.0
    text = f"{backend} reached {share:.3f} of that"
    if share > MORE_THAN_TCP:
        if backend == "nccl":
            return f"{text}: NCCL used more than TCP"
        return f"{text}: no valid comparison, as one TCP stream was slower; check whether the hosts were busy"
    if share >= HEALTHY_SHARE:
        return f"{text}: as much as TCP gives"
    if share >= POOR_SHARE:
        return f"{text}: slightly less than TCP gives"
    return (
        f"{text}: something other than the link is the limit; check the hosts' CPU load "
        "(one gloo process uses about one core) and other jobs on them"
    )


def _link_line(found: BandwidthResult, plan: Plan) -> str:
    names = ", ".join(sorted({host.interface for host in plan.hosts}))
    if found.link_gb_s is None:
        return f"the speed of {names} is unknown: its driver does not report it, so it is not compared"
    text = f"{names} is a link of {rate(found.link_gb_s)}"
    if found.wire_gb_s is None:
        return text
    share = found.wire_gb_s / found.link_gb_s
    if share > 1.02:
        return f"{text} according to its driver, but plain TCP carried {share:.2f} times that: the value is no limit"
    why = "" if share >= POOR_SHARE else ": the hosts' CPUs, not the link, limited the one TCP stream"
    return f"{text}; plain TCP used {share:.2f} of it{why}"


def rate(gb_s: float) -> str:
    """0.119 GB/s (0.95 Gb/s): in bytes as torch counts, and in bits as the speed of links is given."""
    return f"{gb_s:.3f} GB/s ({gb_s * 8:.2f} Gb/s)"


def size_text(num_bytes: int) -> str:
    """8 B, 4 KiB, 64 MiB; with two decimals if it is not a whole number of units."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes >= size:
            value = num_bytes / size
            return f"{value:g} {unit}" if value == round(value, 2) else f"{value:.2f} {unit}"
    return f"{num_bytes} B"


def time_text(seconds: float) -> str:
    """Duration with a unit: 12.3 us, 4.56 ms, 1.20 s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
