"""Whether this version knows the format of an attempt's directory. An unknown one counts as in use.

Another version of ddp-play may have written it: this user's controllers are upgraded one after the other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .protocol import LOGS, SOURCE, protocol_problem, rank_dir_name
from .refusal import Refused
from .run_directory import read_json

if TYPE_CHECKING:
    from pathlib import Path

    from .protocol import Header
    from .run_directory import HostRun

# What an attempt's directory has before its spec.json is written, and `rank-N`. Temporary files begin with a dot.
# src.tar: of earlier versions.
WITHOUT_SPEC = ("channel.lock", "control", "env", "lease", LOGS, SOURCE, "src.archive", "src.pieces", "src.tar")
REMEDY = "use that version of ddp-play for this run, or upgrade this one"


def format_problem(place: HostRun, state: Optional[Dict[str, Any]] = None) -> str:
    """Why this version must not touch the directory; empty if it may. `state`: the one that the guard told."""
    try:
        entries = os.listdir(str(place.root))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return "%s cannot be read: %s" % (place.root, error.strerror)
    if not place.attempt:
        return "%s is not the directory of an attempt" % place.root
    spec = read_json(place.spec)
    if spec is None and _is_missing_or_empty(place.spec):  # also if somebody removes the attempt meanwhile
        return _without_spec(place, entries)
    if spec is None:
        return "%s cannot be read as JSON" % place.spec
    why = protocol_problem(spec) or protocol_problem(state or read_json(place.state) or {})
    return "%s was %s" % (place.root, why) if why else ""


def refuse_unknown(header: Header, place: HostRun, state: Dict[str, Any]) -> None:
    """Raise Refused if the controller's order `header` or the attempt has a format that this version does not know."""
    why = protocol_problem(header)
    why = "the controller's order was %s" % why if why else format_problem(place, state)
    if why:
        raise Refused(why, kind="version", hint=REMEDY)


def _is_missing_or_empty(path: Path) -> bool:
    """A crash of the host can leave a file without content."""
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:
        return False


def _without_spec(place: HostRun, entries: List[str]) -> str:
    known = (*WITHOUT_SPEC, place.spec.name, place.state.name, place.guard_log.name, "guard.lock")
    unknown = sorted(name for name in entries if name not in known and not name.startswith((".", rank_dir_name(""))))
    return "%s has no spec.json, but an unknown %s" % (place.root, unknown[0]) if unknown else ""
