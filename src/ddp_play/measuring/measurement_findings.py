"""What measurements mean: collectives beside torch's own table, bandwidth beside what the link carries. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.plan_document import Plan

# A message large enough that latency does not count and small enough for any host; judged where it was measured.
JUDGED_BYTES = 64 << 20
# A shaper's queue swallows less: below this a figure may exceed the link.
LEAST_JUDGED_BYTES = 16 << 20
# torch.distributed on TCP reaches this share of plain TCP where the processor is not the limit.
HEALTHY_SHARE = 0.95
POOR_SHARE = 0.8
MORE_THAN_TCP = 1.05


@dataclass(frozen=True, slots=True)
class Cell:
    """One collective on one backend and device."""

    status: str  # works | not run | refused | wrong | hung
    documented: bool | None
    detail: str

    @property
    def differs(self) -> bool:
        """Is it other than torch's documentation says?"""
        return self.status != "not run" and self.documented is not None and self.documented != (self.status == "works")

    @property
    def bad(self) -> bool:
        """Wrong values or a hang; a refusal is an answer."""
        return self.status in ("wrong", "hung")


def collective_table(results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Cell]]:
    """collective -> way -> cell, in the order in which they ran; `results` maps ways to rank 0's results."""
    table: dict[str, dict[str, Cell]] = {}
    for way, result in results.items():
        for row in result.get("collectives", ()):
            table.setdefault(row["name"], {})[way] = Cell(row["status"], row["documented"], row["detail"])
    return table


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an all-reduce got; GB/s of 10^9 bytes. None: not measured, or not known."""

    op: str
    num_bytes: int
    busbw_gb_s: float
    wire_gb_s: float | None  # plain TCP on the slowest link of the ring of hosts, in the same run
    link_gb_s: float | None  # what the slowest interface says of itself

    @property
    def of_wire(self) -> float | None:
        """Share of what plain TCP carried."""
        return self.busbw_gb_s / self.wire_gb_s if self.wire_gb_s else None

    def to_json(self) -> dict[str, Any]:
        """For --json and the bundle."""
        return {**asdict(self), "of_wire": self.of_wire}


def reach(result: Mapping[str, Any], plan: Plan) -> Reach | None:
    """The judged figure of a result: all_reduce at 64 MiB, or at its largest size from 16 MiB up."""
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
    return Reach(
        op="all_reduce",
        num_bytes=row["bytes"],
        busbw_gb_s=row["busbw_gb_s"],
        wire_gb_s=min(wires) if wires else None,
        link_gb_s=min(speeds) / 8000 if known else None,
    )


def reach_lines(found: Reach | None, plan: Plan, *, backend: str) -> list[str]:
    """The verdict in words: what was reached of what could be reached, and where to look if it is little."""
    if found is None:
        return ["no verdict: all_reduce was not measured between 16 and 64 MiB"]
    size = f"{found.num_bytes >> 20} MiB"
    lines = [f"{found.op} of {size}: bus bandwidth {rate(found.busbw_gb_s)}"]
    if plan.fabric == "local":
        return [*lines, "all ranks are on one machine: no link was measured"]
    if found.wire_gb_s is None:
        lines.append("plain TCP between the hosts was not measured: no verdict against the wire")
    elif found.of_wire is not None:
        lines.append(f"plain TCP carried {rate(found.wire_gb_s)} in the same run; {_share(found, backend)}")
    lines.append(_link_line(found, plan))
    return lines


def _share(found: Reach, backend: str) -> str:
    share = found.of_wire or 0.0
    text = f"{backend} reached {share:.3f} of that"
    if share > MORE_THAN_TCP:
        if backend == "nccl":
            return f"{text}: it did not use TCP alone"
        return f"{text}: one plain stream was not the limit here, so this is no verdict; were the hosts busy?"
    if share >= HEALTHY_SHARE:
        return f"{text}: as much as TCP gives"
    if share >= POOR_SHARE:
        return f"{text}: a little is lost on the way to the wire"
    return (
        f"{text}: something beside the link is the limit; is the processor busy (one gloo process "
        "uses about one core), or is another job on the hosts?"
    )


def _link_line(found: Reach, plan: Plan) -> str:
    names = ", ".join(sorted({host.interface for host in plan.hosts}))
    if found.link_gb_s is None:
        return f"the speed of {names} is not known: its driver does not say, so nothing is said of line rate"
    text = f"{names} is a link of {rate(found.link_gb_s)}"
    if found.wire_gb_s is None:
        return text
    share = found.wire_gb_s / found.link_gb_s
    if share > 1.02:
        return f"{text} by its own account, and plain TCP carried {share:.2f} times that: the driver's word is no limit"
    why = "" if share >= POOR_SHARE else ": the hosts' processors, not the link, were the limit of one stream"
    return f"{text}; plain TCP used {share:.2f} of it{why}"


def rate(gb_s: float) -> str:
    """0.119 GB/s (0.95 Gb/s): bytes as torch counts, bits as links are sold."""
    return f"{gb_s:.3f} GB/s ({gb_s * 8:.2f} Gb/s)"


def size_text(num_bytes: int) -> str:
    """8 B, 4 KiB, 64 MiB; in powers of two where it is one."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if num_bytes >= size:
            value = num_bytes / size
            return f"{value:g} {unit}" if value == round(value, 2) else f"{value:.2f} {unit}"
    return f"{num_bytes} B"


def time_text(seconds: float) -> str:
    """12.3 us, 4.56 ms, 1.20 s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
