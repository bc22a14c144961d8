"""Entry point of the program on the host: `runs`, `clean`, `facts`, `channel`, `guard`, `samples`, `usage` or `enter`.

Each verb imports its own modules, because an import costs every process of the program its time.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Callable, Dict, Optional

from .answer_limit import AnswerLimit
from .protocol import BEGIN, END
from .run_directory import HostRun, read_json


def _answer(value: object, limit: Optional[AnswerLimit] = None) -> None:
    """Print one line of JSON between markers, so that the controller can ignore what a login shell prints."""
    if limit is not None:
        limit.met()
    sys.stdout.write(BEGIN + json.dumps(value) + END + "\n")
    sys.stdout.flush()


def _check_state_directory() -> None:
    """SystemExit with the reason if no directory can hold the state."""
    from . import state_directory

    try:
        state_directory.create()
    except state_directory.UnusableError as error:
        raise SystemExit(str(error)) from error


def _runs(limit_s: str = "0") -> None:
    from . import leftover_containers, leftovers, source_store

    limit = AnswerLimit("runs", float(limit_s))
    runs = limit.during("the list of runs in the state directory", leftovers.runs)
    containers = limit.during("the list of containers and of running guards", leftover_containers.orphan_containers)
    sources = limit.during("the size of kept sources", source_store.SourceStore().size)
    _answer({"runs": runs, "containers": containers, "sources_bytes": sources}, limit)


def _clean(order: str) -> None:
    """Remove the given run directories and containers, by exact name, and with `sources` all kept sources."""
    from . import guard_link, host_identity, leftover_containers, leftovers, source_store

    wanted = json.loads(order)
    left = []
    for path in wanted.get("paths", []):
        place = HostRun(Path(path))
        state, alive = guard_link.look(place)
        spec = read_json(place.spec) or {}
        elsewhere = "" if alive else host_identity.other_host(place, spec, state)
        if elsewhere:
            left.append("%s: it belongs to %s, which shares this directory; run gc there" % (path, elsewhere))
        elif (alive or place.attended()) and not wanted.get("living_too"):
            left.append(
                "%s: a guard or a channel became active after it was listed (ddp-play ps -i INVENTORY shows it)" % path
            )
        else:
            # requested by a user: the head also removes what its attempts share
            left += leftovers.clean(place, run_paths=spec.get("run_paths", []) if spec.get("head") else []).left
    containers = wanted.get("containers", [])
    used = [] if wanted.get("living_too") else leftover_containers.used_containers(containers)
    left += ["container %s: its run became active after it was listed" % name for name in used]
    for container in (name for name in containers if name not in used):
        left += leftover_containers.remove_containers([container])
    if wanted.get("sources"):
        left += source_store.SourceStore().clear()
    _answer({"left": left})


def _usage(limit_s: str, order: str) -> None:
    from . import usage_answer

    limit, since_s = AnswerLimit("usage", float(limit_s)), float(json.loads(order)["since_s"])
    _answer(limit.during("the record of what runs have used", usage_answer.answer, since_s), limit)


def _facts(limit_s: str, wanted: str) -> None:
    from . import fact_gathering, root_rights

    limit = AnswerLimit("facts", float(limit_s))
    _answer({**fact_gathering.collect(json.loads(wanted), limit), "root_rights": root_rights.problem()}, limit)


def _channel(*arguments: str) -> None:
    from . import controller_channel

    controller_channel.main(list(arguments))


def _guard(root: str) -> None:
    from . import daemon

    daemon.main(root)


def _samples(root: str) -> None:
    from . import sampler

    sampler.main(root)


def _enter(file: str, workdir: str, *command: str) -> None:
    from . import container_entry

    container_entry.main(file, workdir, list(command))


VERBS: Dict[str, Callable[..., None]] = {
    "runs": _runs,
    "clean": _clean,
    "usage": _usage,
    "facts": _facts,
    "channel": _channel,
    "guard": _guard,
    "samples": _samples,
    "enter": _enter,
}
OF_GUARDS = ("guard", "samples", "enter")  # a channel has checked the state directory for them


def run() -> None:
    """`main` in a process of its own, which then ends at once: taking all modules down costs 3 ms."""
    main()
    os._exit(0)  # all that was written has been flushed, and no thread has work that must be finished


def main() -> None:
    """Run the verb that the first argument names; SystemExit for an unknown one."""
    verb, rest = sys.argv[1], sys.argv[2:]
    if verb != "enter":  # which hands its environment on to a rank
        # tc and others are in directories that are not in an ordinary user's PATH
        os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    if verb not in VERBS:
        raise SystemExit("unknown verb %s" % verb)
    if verb not in OF_GUARDS:
        _check_state_directory()
    VERBS[verb](*rest)
