"""Orders of `ddp-play check PLAYBOOK` about containers of its job: places of their files, and programs in them."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import container_program, rank_program
from .bounded_reading import read_all
from .order_stream import hung_up
from .protocol import SHARED_RUNS
from .run_directory import HostRun

if TYPE_CHECKING:
    from .protocol import Header

DIRECTORY_S = 8.0
ATTEMPT = 1
MOST_LEFT = 20


class ContainerOrders:
    """What this host holds for them. `send`: of the channel."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.made: Optional[List[str]] = None  # directories of all runs that the check made; None: not yet known
        self.left: List[str] = []  # what could not be removed of any container

    def on_container_place(self, header: Header) -> None:
        """Answer the directories of a container, and the user id here. Nothing is made yet."""
        place = _place(header)
        answer = {"directory": str(place.root), "secrets": str(place.secrets), "uid": os.geteuid()}
        self._answer("container_place", answer)

    def on_container_run(self, header: Header) -> None:
        """Run a program in a container of this spec. Its port belongs to no run meanwhile, or nothing begins."""
        spec, words = dict(header["spec"]), [str(word) for word in header["words"]]
        unit = spec.get("agent") or spec["ranks"][0]
        unit["create"] = [*unit["create"], *words]
        self._note_missing(spec)
        place, limits = _place(header), (float(header["limit_s"]), float(header["start_s"]))
        found = rank_program.with_port(header.get("port"), lambda: container_program.run(place, spec, limits, hung_up))
        self._note_left(found)
        self._answer("container_run", found)

    def on_container_end(self, _header: Header) -> None:
        """Remove what the check made for containers of all hosts. Answers what is left of any container here."""
        self.hang_up()
        self._answer("container_end", {"left": self.left[:MOST_LEFT]})

    def hang_up(self) -> None:
        """Give back what is still held."""
        made, self.made = self.made or [], []
        if made:
            read_all({"made": (lambda: _remove_empty(made), DIRECTORY_S)})

    def _note_missing(self, spec: Dict[str, Any]) -> None:
        """Which directories of all runs are not there yet: a host where no job has run has none."""
        if self.made is None:
            paths = [str(row["path"]) for row in spec["make_dirs"] if os.path.basename(row["path"]) == SHARED_RUNS]
            looked = read_all({"missing": (lambda: _missing(paths), DIRECTORY_S)})["missing"]
            self.made = [str(path) for path in looked.get("value", ())]

    def _note_left(self, found: Dict[str, Any]) -> None:
        row = found.get("left") or {}
        texts = [str(row["problem"])] if "problem" in row else map(str, row.get("value", ()))
        self.left += [text for text in texts if text not in self.left]

    def _answer(self, kind: str, value: object) -> None:
        self.send(kind, json.dumps(value).encode())


def _place(header: Header) -> HostRun:
    return HostRun.at(str(header["key"]), ATTEMPT, str(header["host"]))


def _missing(paths: List[str]) -> List[str]:
    return [path for path in paths if not os.path.lexists(path)]


def _remove_empty(paths: List[str]) -> None:
    """Remove them, unless a run has begun to use one."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.rmdir(path)
