"""Check of all collectives on a backend and device, with values compared on all ranks: python -m trainer collectives.

Each case has its own process group and time limit, so a case that hangs or fails does not stop the cases after
it. The exit code is 1 if a value was wrong or a case hung. A backend that refuses a collective is no failure.

Before each case the result file names it and has the outcomes so far. If a case ends the process, --after goes on
behind it.
"""

import argparse
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from trainer.collective_calls import CaseContext, WrongValueError
from trainer.collective_cases import CASES, Case, is_documented
from trainer.output_files import MetricsLog, write_json
from trainer.store import explicit_store
from trainer.world import World, joined, parse_rendezvous

SEVERITY = ("works", "not run", "refused", "wrong", "hung")


@dataclass(frozen=True)
class Outcome:
    """Outcome of one case on one rank, or the worst outcome over all ranks."""

    name: str
    status: str  # one of SEVERITY
    detail: str
    seconds: float
    documented: bool | None  # whether torch's table says that it works; None: the table has no such column


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command `collectives`."""
    group = parser.add_argument_group("cases")
    group.add_argument(
        "--case-timeout", type=float, default=10.0, metavar="S", help="time limit of one collective, default 10"
    )
    names = [case.name for case in CASES]
    group.add_argument("--after", choices=names, default="", metavar="NAME", help="start behind this collective")


def run(args: argparse.Namespace) -> int:
    """Run all cases on this rank and merge the outcomes; exit code 1 if a value was wrong or a case hung."""
    warnings.simplefilter("ignore")  # deprecation warnings: old function names are called on purpose
    rendezvous = parse_rendezvous(args)
    with (
        joined(rendezvous, explicit_store(rendezvous)) as world,
        MetricsLog(args.metrics, rank=world.rank) as metrics,
    ):
        control = control_group(world, args.case_timeout)
        mine = run_cases(cases_after(args.after), world, control, metrics, args)
        everyone = gather_outcomes(mine, world, control, args.case_timeout)
        merged = [worst_outcome(outcomes) for outcomes in zip(*everyone, strict=True)]
        if args.result:
            write_json(args.result, result_record(merged, mine, world, complete=len(everyone) == world.world_size))
        if world.is_first:
            print(table(merged, world), flush=True)
        code = 1 if any(outcome.status in {"wrong", "hung"} for outcome in merged) else 0
        if any(outcome.status == "hung" for outcome in mine):
            sys.stdout.flush()
            os._exit(code)  # the thread of the hung case would keep the process alive
    return code


def cases_after(name: str) -> tuple[Case, ...]:
    """The cases behind the one of this name, all if the name is empty."""
    names = [case.name for case in CASES]
    return CASES[names.index(name) + 1 :] if name else CASES


def run_cases(
    cases: tuple[Case, ...],
    world: World,
    control: dist.ProcessGroup | None,
    metrics: MetricsLog,
    args: argparse.Namespace,
) -> list[Outcome]:
    """Run these cases on this rank. If one ends the process, the result file has the outcomes of those before it."""
    outcomes: list[Outcome] = []
    for number, case in enumerate(cases, start=1):
        if args.result:
            write_json(args.result, running_record(case.name, cases, outcomes, world))
        outcome = run_case(case, world, control, args.case_timeout)
        outcomes.append(outcome)
        metrics.write(step=number, collective=outcome.name, status=outcome.status, seconds=outcome.seconds)
    if args.result:
        write_json(args.result, running_record("", cases, outcomes, world))
    return outcomes


def control_group(world: World, timeout_s: float) -> dist.ProcessGroup | None:
    """The process group whose barrier separates the cases; None: the default group.

    It uses gloo on the CPU where possible, so that a GPU that hangs does not block it. Its timeout is long,
    because a rank may arrive late by the whole time limit of a case.
    """
    if not {"gloo", "nccl"} & set(world.backend.replace(",", ":").split(":")):
        return None
    timeout = timedelta(seconds=60 + 2 * case_limit_s(timeout_s))
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=timeout)
    return group


def case_limit_s(timeout_s: float) -> float:
    """Seconds after which a case counts as hung: longer than the timeouts of its group and of setting that up."""
    return 2 * timeout_s + 5


def run_case(case: Case, world: World, control: dist.ProcessGroup | None, timeout_s: float) -> Outcome:
    """Run one case after a barrier, within its time limit."""
    documented = _documented(case, world)
    reason = reason_to_skip(case, world)
    if reason:
        return Outcome(case.name, "not run", reason, 0.0, documented)

    def call() -> None:
        if world.device.type == "cuda":
            torch.cuda.set_device(world.device)  # the current device is a property of the thread
        group = dist.new_group(timeout=timedelta(seconds=timeout_s))
        case.function(CaseContext(world.rank, world.world_size, world.device, group))

    dist.barrier(group=control)
    started = time.monotonic()
    status, detail = run_with_limit(call, case_limit_s(timeout_s))
    return Outcome(case.name, status, detail, round(time.monotonic() - started, 3), documented)


def reason_to_skip(case: Case, world: World) -> str:
    """Why the case cannot run on this world; empty if it can."""
    if world.world_size < case.least_ranks:
        return f"needs {case.least_ranks} ranks"
    if case.only and case.only != world.backend:
        return f"{case.only} only"
    return ""


def run_with_limit(call: Callable[[], None], limit_s: float) -> tuple[str, str]:
    """Status and detail of a call that may raise or never return; a hung call keeps its daemon thread."""
    answer: list[tuple[str, str]] = []

    def work() -> None:
        try:
            call()
            answer.append(("works", ""))
        except Exception as error:  # noqa: BLE001  # any exception is the outcome of the case
            answer.append(classify(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    return answer[0] if answer else ("hung", f"no answer within {limit_s:g} s")


def classify(error: Exception) -> tuple[str, str]:
    """Status (one of SEVERITY) and first line of an exception."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, WrongValueError):
        return "wrong", line
    if "timed out" in line.lower() or "timeout" in line.lower():
        return "hung", line
    return "refused", line


def gather_outcomes(
    mine: list[Outcome], world: World, control: dist.ProcessGroup | None, timeout_s: float
) -> list[list[Outcome]]:
    """The outcomes of all ranks in rank order; only those of this rank if the others do not answer."""
    everyone: list[list[Outcome]] = [[]] * world.world_size

    def gather() -> None:
        dist.all_gather_object(everyone, mine, group=control)

    status, _ = run_with_limit(gather, case_limit_s(timeout_s))
    return everyone if status == "works" else [mine]


def worst_outcome(outcomes: tuple[Outcome, ...]) -> Outcome:
    """The most severe outcome of one case, the slowest of equals."""
    return max(outcomes, key=lambda outcome: (SEVERITY.index(outcome.status), outcome.seconds))


def running_record(name: str, cases: tuple[Case, ...], mine: list[Outcome], world: World) -> dict[str, object]:
    """The result file while the case of this name runs; empty: all have run, and the ranks compare their outcomes."""
    return {
        **_fields(world, "running"),
        "running": name,
        "cases": [{"name": case.name, "documented": _documented(case, world)} for case in cases],
        "this_rank": [asdict(outcome) for outcome in mine],
    }


def result_record(merged: list[Outcome], mine: list[Outcome], world: World, *, complete: bool) -> dict[str, object]:
    """The result file of a rank; `complete` is false if ranks did not report their outcomes."""
    return {
        **_fields(world, "finished"),
        "all_ranks_heard": complete,
        "collectives": [asdict(outcome) for outcome in merged],
        "this_rank": [asdict(outcome) for outcome in mine],
    }


def _fields(world: World, status: str) -> dict[str, object]:
    """The fields that every result file has."""
    return {
        "status": status,
        "rank": world.rank,
        "world_size": world.world_size,
        "backend": world.backend,
        "device": world.device.type,
        "torch": torch.__version__,
    }


def _documented(case: Case, world: World) -> bool | None:
    return is_documented(world.backend, world.device.type, case.documented_as)


def table(merged: list[Outcome], world: World) -> str:
    """The table that rank 0 prints; a star marks a difference from the table in torch's documentation."""
    title = f"{world.backend} on {world.device.type}, {world.world_size} ranks, torch {torch.__version__}"
    lines = [title, f"{'collective':26}{'here':9}{'documented':12}{'seconds':>8}  detail"]
    for outcome in merged:
        documented = {True: "yes", False: "no", None: "-"}[outcome.documented]
        differs = outcome.documented is not None and outcome.documented != (outcome.status == "works")
        star = "*" if differs and outcome.status != "not run" else ""
        row = f"{outcome.name:26}{outcome.status:9}{documented + star:12}{outcome.seconds:8.2f}"
        lines.append(f"{row}  {outcome.detail}".rstrip())
    return "\n".join(lines)
