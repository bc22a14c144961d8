"""Bandwidth of collectives over message sizes, measured as nccl-tests does: python -m trainer allreduce.

For each size the ranks make one call whose values are checked, then warm-up calls, then timed calls. A barrier
precedes every timed call, and a call takes as long as on its slowest rank. The result is the median.
algbw = size / time. busbw = algbw x the share of the data that must cross a rank's link: 2(n-1)/n for
all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1 for broadcast and reduce. Both are in GB/s
of 10^9 bytes. If the ranks are on several hosts, plain TCP between the hosts is measured too (plain_tcp.py).
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist

from trainer.host_groups import group_by_host
from trainer.memory import available_bytes
from trainer.output_files import MetricsLog, write_json
from trainer.plain_tcp import Link, links_line, measure_links
from trainer.store import explicit_store
from trainer.timed_collectives import TIMED_COLLECTIVES, TimedCollective
from trainer.world import World, joined, parse_rendezvous

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
LEAST_CALLS, MOST_CALLS = 5, 200  # timed calls of one size
SLOW_CALLS = 3  # timed calls where 5 would take more than twice the time budget
WARM_UP_CALLS = 3


@dataclass(frozen=True)
class Row:
    """Measurement of one message size; bandwidths in GB/s (10^9 bytes)."""

    bytes: int
    calls: int
    median_s: float
    p99_s: float  # by the nearest-rank method: the slowest call where there are fewer than 100
    min_s: float
    max_s: float
    algbw_gb_s: float
    busbw_gb_s: float
    wrong: int  # number of elements with a wrong value, summed over all ranks


def parse_size(text: str) -> int:
    """Number of bytes in 8, 4K, 64M or 1G (powers of 1024); ArgumentTypeError if it is no size."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in set("KMG") else (text, "")
    try:
        value = int(number) * UNITS[unit]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 8, 4K, 64M or 1G") from error
    if value < 4:
        raise argparse.ArgumentTypeError(f"{text!r} is less than one float32")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command `allreduce`."""
    group = parser.add_argument_group("measurement")
    group.add_argument(
        "--op",
        action="append",
        choices=[*sorted(TIMED_COLLECTIVES), "all"],
        help="default: all_reduce; may be repeated",
    )
    group.add_argument("--min-bytes", type=parse_size, default=8, metavar="SIZE", help="default: 8")
    group.add_argument(
        "--max-bytes", type=parse_size, default=2**30, metavar="SIZE", help="default: 1G, or less if memory requires it"
    )
    group.add_argument(
        "--factor", type=int, choices=range(2, 65), default=4, metavar="N", help="factor between sizes, default 4"
    )
    group.add_argument(
        "--seconds-per-size", type=float, default=1.0, metavar="S", help="time budget of the timed calls, default 1"
    )
    group.add_argument(
        "--limit", type=float, default=60.0, metavar="S", help="skip sizes that would take longer, default 60"
    )
    group.add_argument(
        "--wire-seconds", type=float, default=1.5, metavar="S", help="one round of plain TCP, default 1.5; 0: off"
    )


def sizes(least: int, most: int, factor: int) -> list[int]:
    """Sizes in bytes: least, least x factor, and so on; the last one is always `most`."""
    found = []
    current = least
    while current < most:
        found.append(current)
        current *= factor
    return [*found, most]


def run(args: argparse.Namespace) -> int:
    """Measure the requested collectives on this rank; exit code 1 if any element had a wrong value."""
    rendezvous = parse_rendezvous(args)
    with (
        joined(rendezvous, explicit_store(rendezvous)) as world,
        MetricsLog(args.metrics, rank=world.rank) as metrics,
    ):
        links = measure_links(world, args.wire_seconds)
        if world.is_first and links:
            print(links_line(links), flush=True)
        names = args.op or ["all_reduce"]
        chosen = list(TIMED_COLLECTIVES) if "all" in names else list(dict.fromkeys(names))
        sweeps = [sweep(TIMED_COLLECTIVES[name], world, args, metrics) for name in chosen]
        if args.result:
            write_json(args.result, result_record(sweeps, links, world))
    return 1 if any(row.wrong for found in sweeps for row in found.rows) else 0


@dataclass(frozen=True)
class Sweep:
    """Measurements of one collective over all sizes; `note` says which sizes are missing and why."""

    op: str
    bus_factor: float
    rows: list[Row]
    note: str


def sweep(operation: TimedCollective, world: World, args: argparse.Namespace, metrics: MetricsLog) -> Sweep:
    """Measure one collective over the sizes that fit into memory and into --limit."""
    most = min(args.max_bytes, largest_message_bytes(world))
    note = "the largest size is what memory allows" if most < args.max_bytes else ""
    rows: list[Row] = []
    if world.is_first:
        print(format_heading(operation, world), flush=True)
    for number, num_bytes in enumerate(sizes(min(args.min_bytes, most), most, args.factor), start=1):
        # the rows are equal on all ranks, so all ranks stop at the same size
        if rows and expected_s(rows[-1], num_bytes) > args.limit:
            note = f"{num_bytes} bytes and more would take over {args.limit:g} s each (--limit)"
            break
        row = measure(operation, world, num_bytes, args.seconds_per_size)
        rows.append(row)
        metrics.write(step=number, op=operation.name, **asdict(row))
        if world.is_first:
            print(format_row(row), flush=True)
    if world.is_first and note:
        print(note, flush=True)
    return Sweep(operation.name, operation.bus_factor(world.world_size), rows, note)


def expected_s(last: Row, num_bytes: int) -> float:
    """Estimated seconds for all calls of a size, at the rate per byte of the previous size."""
    return last.median_s * num_bytes / last.bytes * (2 + SLOW_CALLS)


def largest_message_bytes(world: World) -> int:
    """Largest message that fits on every rank, a quarter of its memory: buffers and expected values need the rest."""
    ranks_here = len(group_by_host(world).ranks)
    mine = available_bytes(world.device) // (1 if world.device.type == "cuda" else ranks_here)
    bound = torch.tensor([mine // 4], dtype=torch.int64, device=world.device)
    dist.all_reduce(bound, op=dist.ReduceOp.MIN)
    return int(bound.item())


def measure(operation: TimedCollective, world: World, num_bytes: int, budget_s: float) -> Row:
    """Check, warm up and time one size; `budget_s` limits the timed calls."""
    prepared = operation.prepare(world, num_bytes // 4)
    prepared.call()
    found_wrong = torch.tensor([prepared.num_wrong()], dtype=torch.int64, device=world.device)
    dist.all_reduce(found_wrong)
    prepared.clear()  # zeros, because repeated sums would overflow
    warm_up = slowest_of_ranks([time_call(prepared.call, world)], world)
    if warm_up[0] * WARM_UP_CALLS < budget_s:
        warm_up = slowest_of_ranks([time_call(prepared.call, world) for _ in range(WARM_UP_CALLS - 1)], world)
    one = max(statistics.median(warm_up), 1e-6)
    least = LEAST_CALLS if one * LEAST_CALLS < 2 * budget_s else SLOW_CALLS
    calls = max(least, min(MOST_CALLS, int(budget_s / one)))
    times = slowest_of_ranks([time_call(prepared.call, world) for _ in range(calls)], world)
    median = statistics.median(times)
    algbw = prepared.num_bytes / median / 1e9
    return Row(
        bytes=prepared.num_bytes,
        calls=calls,
        median_s=median,
        p99_s=percentile(times, 0.99),
        min_s=min(times),
        max_s=max(times),
        algbw_gb_s=algbw,
        busbw_gb_s=algbw * operation.bus_factor(world.world_size),
        wrong=int(found_wrong.item()),
    )


def time_call(call: Callable[[], None], world: World) -> float:
    """Seconds of one call on this rank, started after a barrier and finished on the device."""
    dist.barrier()
    synchronize(world.device)
    started = time.perf_counter()
    call()
    synchronize(world.device)
    return time.perf_counter() - started


def percentile(values: list[float], share: float) -> float:
    """Percentile by the nearest-rank method: the smallest value that is not below `share` (0 to 1) of the values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its queued work; a CPU has no queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def slowest_of_ranks(times: list[float], world: World) -> list[float]:
    """For each call the seconds on its slowest rank; the result is equal on all ranks."""
    slowest = torch.tensor(times, dtype=torch.float64, device=world.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return [float(seconds) for seconds in slowest.tolist()]


def result_record(sweeps: list[Sweep], links: list[Link], world: World) -> dict[str, object]:
    """The result file of a rank; `links` are stored under their older name `wires`."""
    return {
        "status": "finished",
        "rank": world.rank,
        "world_size": world.world_size,
        "backend": world.backend,
        "device": world.device.type,
        "dtype": "float32",
        "torch": torch.__version__,
        "wires": [asdict(link) for link in links],
        "sweeps": [asdict(found) for found in sweeps],
    }


def format_heading(operation: TimedCollective, world: World) -> str:
    """Title and column heads of the table that rank 0 prints."""
    where = f"{operation.name}, {world.backend} on {world.device.type}, {world.world_size} ranks, float32"
    columns = f"{'bytes':>12}{'calls':>7}{'p50 us':>13}{'p99 us':>13}{'algbw GB/s':>12}{'busbw GB/s':>12}{'wrong':>7}"
    return f"{where}\n{columns}"


def format_row(row: Row) -> str:
    """One line of that table; times in microseconds."""
    return (
        f"{row.bytes:>12}{row.calls:>7}{row.median_s * 1e6:>13.1f}{row.p99_s * 1e6:>13.1f}"
        f"{row.algbw_gb_s:>12.3f}{row.busbw_gb_s:>12.3f}{row.wrong:>7}"
    )
