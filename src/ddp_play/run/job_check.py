"""Check of the hosts of an attempt before anything is started on them: what they read and see, and who judges it.

The rules are those of `ddp-play check` and live above this package; whoever starts a run passes them as a `Judge`.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostNotReady, HostUnfit
from ddp_play.planning.refused_hosts import Refused, joined
from ddp_play.run.host_frames import cut_texts
from ddp_play.run.host_links import PAYLOAD
from ddp_play.run.peer_choice import peers_of

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link

# Of all readings of a check, those that decide about the ranks of a job and that no plan knows.
READINGS = ("identity", "limits", "names", "space_shm", "space_state", "space_shared", "token", "write_state")
# Each reading has its own limit on the host, of 8 to 18 seconds; these are for the answer with all of them.
READ_S, SEE_S, END_S = 20.0, 25.0, 20.0
MAX_ANSWER = 1 << 20

Answers = Mapping[str, Mapping[str, Any]]  # by host: `readings`, `reached`, `ended`


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say of the hosts of a job. `refused`: hosts on which ranks would fail or hang."""

    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()


Judge = Callable[["Plan", Mapping[str, "HostFacts"], Answers], Judged]


def read_hosts(gang: Gang, plan: Plan, facts: Mapping[str, HostFacts]) -> Answers:
    """What the hosts of a plan read, and which files of each other they see in the shared directory.

    What a host does not answer in time is missing. One whose channel has ended ends the run at the next order.
    """
    word = secrets.token_hex(8)
    tokens = {host.name: [host.shared_dir, word, host.name] for host in plan.hosts if host.shared_dir}

    def read(link: Link) -> dict[str, Any]:
        names = [facts[link.name].hostname] if link.name in facts else []
        order = {"names": names, "port_range": list(plan.port_range), "only": READINGS}
        return {**order, "token": tokens.get(link.name)}

    def see(link: Link) -> dict[str, Any]:
        others = peers_of(link.name, list(tokens))
        return {"peers": [], "source": "", "limit_s": 1.0, "token": tokens[link.name], "others": others}

    def end(link: Link) -> dict[str, Any]:
        return {"token": tokens[link.name]}

    writers = [link for link in gang.links if link.name in tokens]
    answers = {}
    try:
        answers["readings"] = _asked(gang, "check_read", gang.links, READ_S, read)
        if len(writers) > 1:
            answers["reached"] = _asked(gang, "check_reach", writers, SEE_S, see)
    except BaseException:
        for link in writers:
            gang.tell("check_end", links=[link], **end(link))
        raise
    if writers:
        answers["ended"] = _asked(gang, "check_end", writers, END_S, end)
    return {link.name: {kind: found.get(link.name, {}) for kind, found in answers.items()} for link in gang.links}


def _asked(
    gang: Gang, kind: str, links: list[Link], deadline_s: float, fields: Callable[[Link], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """By host, the JSON object of its reply; hosts that sent none, or no reply in time, are missing."""
    with contextlib.suppress(HostNotReady):
        gang.ask(kind, kind, links=links, deadline_s=deadline_s, fields=fields)
    return {link.name: _document(link.replies[kind].get(PAYLOAD, b"")) for link in links if kind in link.replies}


def _document(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload) if len(payload) <= MAX_ANSWER else None
    except (ValueError, RecursionError):
        found = None
    return cut_texts(found) if isinstance(found, dict) else {}


def refuse_unfit(judged: Judged) -> None:
    """HostUnfit that names every refused host, with what was found there and the remedy; nothing if there are none."""
    if not judged.refused:
        return
    message, remedy = joined(judged.refused)
    raise HostUnfit(
        message,
        hint=f"{remedy}\nddp_job_check: none starts the job without this check",
        hosts=tuple(dict.fromkeys(row.host for row in judged.refused)),
    )
