"""Flight recorder of torch in the verdict: which rank never entered which collective.

The ranks' dumps are pickles. They are sent, unread, to one host, where fr_trace reads them as the ranks' user; only its
text comes back.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from ddp_play.bundle.disk_space import unless_full
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_text
from ddp_play.errors import DdpPlayError
from ddp_play.guard.protocol import MAX_DUMPS_BYTES, MAX_PAYLOAD
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link

# The host ends the analysis after 60 s; the rest is for sending the dumps and the answer.
ANALYSE_S = 120.0
# fr_trace of torch 2.7 to 2.13: EntryState.log in torch/distributed/flight_recorder/components/types.py.
ENTRY = re.compile(
    r"^Not all ranks joining collective, sequence number: (?P<sequence>\d+)$(?P<rest>(?:\n(?!Not all ranks).*)*)",
    re.MULTILINE,
)
OPERATION = re.compile(r"^collective: (?:\w+:)?(?P<name>\w+)$", re.MULTILINE)
MISSING = re.compile(r"^missing ranks: \{(?P<ranks>\d+(?:, \d+)*)\}$", re.MULTILINE)
MAX_NAMED = 4


def with_flight_recorder(outcome: Outcome, gang: Gang, plan: Plan, paths: RunPaths) -> Outcome:
    """The outcome of a failed attempt with fr_trace's finding in its message, where the ranks left dumps."""
    dumps = {rank: paths.flight_recorder(rank) for rank in range(plan.world_size)}
    dumps = {rank: path for rank, path in dumps.items() if path.is_file()}
    if outcome.status is not RunStatus.FAILED or not dumps:
        return outcome
    text = _report(gang, plan, dumps)
    with unless_full():
        write_text(paths.flight_recorder_report, text)
    said = finding(text, plan)
    if not said:
        return outcome
    message = f"{outcome.verdict.message}; flight recorder: {said}"
    return dataclasses.replace(outcome, verdict=dataclasses.replace(outcome.verdict, message=message))


def _report(gang: Gang, plan: Plan, dumps: dict[int, Path]) -> str:
    """Output of fr_trace, or why it could not be run. A failure here must not change how the run ends."""
    absent = [rank for rank in range(plan.world_size) if rank not in dumps]
    if absent:  # fr_trace refuses an incomplete set
        names = short_list((f"{rank} on {plan.host_of(rank).name}" for rank in absent), MAX_NAMED)
        return f"not analysed: {len(absent)} of {plan.world_size} ranks left no dump: {names}\n"
    if sum(path.stat().st_size for path in dumps.values()) > MAX_DUMPS_BYTES:
        return f"not analysed: the dumps are larger than {MAX_DUMPS_BYTES >> 20} MiB; torchfrtrace reads them\n"
    link = next((link for link in (gang.link(plan.head), *gang.links) if not link.lost), None)
    if link is None:
        return "not analysed: no host answers\n"
    try:
        _send(gang, link, dumps)
        answer = gang.ask("analyse", "analysed", links=[link], deadline_s=ANALYSE_S)[link.name]
    except DdpPlayError as error:
        return f"not analysed: {error.message}\n"
    return str(answer["text"])


def _send(gang: Gang, link: Link, dumps: dict[int, Path]) -> None:
    for rank, path in dumps.items():
        with path.open("rb") as dump:
            while piece := dump.read(MAX_PAYLOAD):
                gang.tell("dump", links=[link], rank=rank, payload=piece)


def finding(text: str, plan: Plan) -> str:
    """`rank 12 on gpu07 never entered all_gather 288686`: the first collective that some ranks missed, or nothing."""
    for entry in ENTRY.finditer(text):
        operation, missing = OPERATION.search(entry["rest"]), MISSING.search(entry["rest"])
        ranks = sorted({int(rank) for rank in missing["ranks"].split(", ")}) if missing else []
        if operation and ranks and ranks[-1] < plan.world_size:
            names = short_list((f"rank {rank} on {plan.host_of(rank).name}" for rank in ranks), MAX_NAMED)
            return f"{names} never entered {operation['name'][:40]} {entry['sequence'][:20]}"
    return ""
