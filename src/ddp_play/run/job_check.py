"""Check of the hosts of an attempt before anything is started on them: what they read and see, and who judges it.

The rules are those of `ddp-play check` and live above this package; whoever starts a run passes them as a `Judge`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostUnfit
from ddp_play.planning.refused_hosts import Refused, joined
from ddp_play.run.host_links import PAYLOAD

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link

# Of all readings of a check, those that decide about the ranks of a job and that no plan knows.
READINGS = ("identity", "limits", "names", "space_shm", "space_state", "space_shared", "token", "write_state")
# Each reading has its own limit on the host, of 8 to 11 seconds; these are for the answer with all of them.
READ_S, SEE_S = 20.0, 20.0
MAX_ANSWER = 1 << 20

Answers = Mapping[str, Mapping[str, Any]]  # by host: `readings`, `reached`


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say of the hosts of a job. `refused`: hosts on which ranks would fail or hang."""

    refused: tuple[Refused, ...] = ()
    warnings: tuple[str, ...] = ()


Judge = Callable[["Plan", Mapping[str, "HostFacts"], Answers], Judged]


def read_hosts(gang: Gang, plan: Plan, facts: Mapping[str, HostFacts]) -> Answers:
    """What the hosts of a plan read, and which files of each other they see in the shared directory.

    What a host does not answer is missing; HostNotReady if its channel breaks.
    """
    word = secrets.token_hex(8)
    tokens = {host.name: [host.shared_dir, word, host.name] for host in plan.hosts if host.shared_dir}
    names = sorted({facts[host.name].hostname for host in plan.hosts if host.name in facts})

    def read(link: Link) -> dict[str, Any]:
        order = {"names": names, "port_range": list(plan.port_range), "only": READINGS}
        return {**order, "token": tokens.get(link.name)}

    def see(link: Link) -> dict[str, Any]:
        others = [name for name in tokens if name != link.name]
        return {"peers": [], "source": "", "limit_s": 1.0, "token": tokens[link.name], "others": others}

    writers = [link for link in gang.links if link.name in tokens]
    answers = {}
    try:
        answers["readings"] = _documents(gang.ask("check_read", "check_read", deadline_s=READ_S, fields=read))
        if len(writers) > 1:
            seen = gang.ask("check_reach", "check_reach", links=writers, deadline_s=SEE_S, fields=see)
            answers["reached"] = _documents(seen)
    finally:
        for link in writers:
            gang.tell("check_end", links=[link], token=tokens[link.name])
    return {link.name: {kind: found.get(link.name, {}) for kind, found in answers.items()} for link in gang.links}


def _documents(replies: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By host, the JSON object of its reply; empty where it is none: then every check of it has no value."""
    return {host: _document(reply.get(PAYLOAD, b"")) for host, reply in replies.items()}


def _document(payload: bytes) -> dict[str, Any]:
    try:
        found = json.loads(payload) if len(payload) <= MAX_ANSWER else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


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
