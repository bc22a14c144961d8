"""python -m trainer collectives: which collectives work here, with their values checked on every rank.

Each case gets a process group of its own and a time limit, so that one that hangs or fails is a line in the
table and not the end of it. Exit code 1 if any value was wrong or any case hung; a refusal is an answer.
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

from trainer.collective_cases import CASES, Case, CaseContext, WrongValueError, is_documented
from trainer.records import MetricsLog, write_json
from trainer.store import explicit_store
from trainer.world import World, joined, parse_rendezvous

SEVERITY = ("works", "not run", "refused", "wrong", "hung")


@dataclass(frozen=True)
class Outcome:
    """One case on one rank, or on all of them (then the worst_outcome of all)."""

    name: str
    status: str  # one of SEVERITY
    detail: str
    seconds: float
    documented: bool | None


def run(args: argparse.Namespace) -> int:
    warnings.simplefilter("ignore")  # deprecations: old names are called on purpose
    rendezvous = parse_rendezvous(args)
    with (
        joined(rendezvous, explicit_store(rendezvous)) as world,
        MetricsLog(args.metrics, rank=world.rank) as metrics,
    ):
        control = control_group(world, args.case_timeout)
        mine = []
        for number, case in enumerate(CASES, start=1):
            mine.append(run_case(case, world, control, args.case_timeout))
            last = mine[-1]
            metrics.write(step=number, collective=last.name, status=last.status, seconds=last.seconds)
        everyone = gather_outcomes(mine, world, control, args.case_timeout)
        merged = [worst_outcome(outcomes) for outcomes in zip(*everyone, strict=True)]
        if args.result:
            write_json(args.result, result_record(merged, mine, world, complete=len(everyone) == world.world_size))
        if world.is_first:
            print(table(merged, world), flush=True)
        code = 1 if any(outcome.status in {"wrong", "hung"} for outcome in merged) else 0
        if any(outcome.status == "hung" for outcome in mine):
            sys.stdout.flush()
            os._exit(code)  # the thread of the hung case would keep the process
    return code


def control_group(world: World, timeout_s: float) -> dist.ProcessGroup | None:
    """The group in which the ranks wait for each other between cases; None: the default one.

    It is gloo on CPU where possible, so that a GPU that hangs does not matter, and patient, because a rank
    may come late by the whole limit of a case.
    """
    if not {"gloo", "nccl"} & set(world.backend.replace(",", ":").split(":")):
        return None
    patience = timedelta(seconds=60 + 2 * case_limit_s(timeout_s))
    group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=patience)
    return group


def case_limit_s(timeout_s: float) -> float:
    """When to give up on a case: its group times out first, setting the group up may too."""
    return 2 * timeout_s + 5


def run_case(case: Case, world: World, control: dist.ProcessGroup | None, timeout_s: float) -> Outcome:
    """Run one case within a limit of its own, from a common start."""
    documented = is_documented(world.backend, world.device.type, case.documented_as)
    reason = reason_to_skip(case, world)
    if reason:
        return Outcome(case.name, "not run", reason, 0.0, documented)

    def call() -> None:
        if world.device.type == "cuda":
            torch.cuda.set_device(world.device)  # the current device belongs to the thread
        group = dist.new_group(timeout=timedelta(seconds=timeout_s))
        case.function(CaseContext(world.rank, world.world_size, world.device, group))

    dist.barrier(group=control)
    started = time.monotonic()
    status, detail = run_with_limit(call, case_limit_s(timeout_s))
    return Outcome(case.name, status, detail, round(time.monotonic() - started, 3), documented)


def reason_to_skip(case: Case, world: World) -> str:
    if world.world_size < case.least_ranks:
        return f"needs {case.least_ranks} ranks"
    if case.only and case.only != world.backend:
        return f"{case.only} only"
    return ""


def run_with_limit(call: Callable[[], None], limit_s: float) -> tuple[str, str]:
    """Status and detail of a call that may fail, be wrong or never return."""
    answer: list[tuple[str, str]] = []

    def work() -> None:
        try:
            call()
            answer.append(("works", ""))
        except Exception as error:  # noqa: BLE001  # whatever it raises is the answer
            answer.append(classify(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    return answer[0] if answer else ("hung", f"no answer within {limit_s:g} s")


def classify(error: Exception) -> tuple[str, str]:
    """An exception as status and one line."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, WrongValueError):
        return "wrong", line
    if "timed out" in line.lower() or "timeout" in line.lower():
        return "hung", line
    return "refused", line


def gather_outcomes(
    mine: list[Outcome], world: World, control: dist.ProcessGroup | None, timeout_s: float
) -> list[list[Outcome]]:
    """The outcomes of all ranks; only this rank's own where the others cannot be reached any more."""
    everyone: list[list[Outcome]] = [[]] * world.world_size

    def gather() -> None:
        dist.all_gather_object(everyone, mine, group=control)

    status, _ = run_with_limit(gather, case_limit_s(timeout_s))
    return everyone if status == "works" else [mine]


def worst_outcome(outcomes: tuple[Outcome, ...]) -> Outcome:
    return max(outcomes, key=lambda outcome: (SEVERITY.index(outcome.status), outcome.seconds))


def result_record(merged: list[Outcome], mine: list[Outcome], world: World, *, complete: bool) -> dict[str, object]:
    return {
        "status": "finished",
        "rank": world.rank,
        "world_size": world.world_size,
        "backend": world.backend,
        "device": world.device.type,
        "torch": torch.__version__,
        "all_ranks_heard": complete,
        "collectives": [asdict(outcome) for outcome in merged],
        "this_rank": [asdict(outcome) for outcome in mine],
    }


def table(merged: list[Outcome], world: World) -> str:
    """For people; a star marks what differs from torch's own table."""
    title = f"{world.backend} on {world.device.type}, {world.world_size} ranks, torch {torch.__version__}"
    lines = [title, f"{'collective':26}{'here':9}{'documented':12}{'seconds':>8}  detail"]
    for outcome in merged:
        documented = {True: "yes", False: "no", None: "-"}[outcome.documented]
        differs = outcome.documented is not None and outcome.documented != (outcome.status == "works")
        star = "*" if differs and outcome.status != "not run" else ""
        row = f"{outcome.name:26}{outcome.status:9}{documented + star:12}{outcome.seconds:8.2f}"
        lines.append(f"{row}  {outcome.detail}".rstrip())
    return "\n".join(lines)
