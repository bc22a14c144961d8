"""Containers of a job on the hosts of its plan, made and started as those of its ranks, for programs of a check.

Each host has one at a time, in a run of its own that has no guard, no lease and no source; the host removes it.
"""

from __future__ import annotations

import json
import posixpath
import re
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play import __version__
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.controller_user import user_name
from ddp_play.bundle.paths import read_json
from ddp_play.checks.host_orders import lose_for_answer
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.planning.rank_environment import CONTAINER_SECRETS
from ddp_play.run.host_spec import HostPlace, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.checks.host_orders import TimedOrders
    from ddp_play.planning.plan_document import HostPlan, Plan, Unit

RUN = "check"  # name of such a run in labels of containers
PLACE_S, LEAST_START_S = 10.0, 5.0
# Seconds for the engine to make and start a container; for the program that reads; for the host to remove all.
START_S, READ_S, REMOVE_S = 20.0, 15.0, 15.0
FILE = ".ddp-play-check-"  # start of the name of the file that is written to a directory
PART_SHARE = 0.35  # most of the time that is left, for each of the first two
PROGRAMS = ("python3", "python")
PYTHON = re.compile(r"python[0-9.]*\Z")
NO_PYTHON = "no python"  # part that the container prints without one
# Runs $2 with the first Python that is there. `timeout` ends it where this host's program has been killed.
START = """limit=$1 source=$2 order=$3; shift 3
for python in "$@"; do
  command -v "$python" >/dev/null 2>&1 || continue
  command -v timeout >/dev/null 2>&1 && exec timeout -s KILL "$limit" "$python" -c "$source" "$order"
  exec "$python" -c "$source" "$order"
done
echo '{"part": "no python"}'"""


@dataclass
class JobContainers:
    """The containers of a plan over the channels of a check."""

    talk: TimedOrders
    plan: Plan
    places: dict[str, HostPlace] = field(default_factory=dict)
    launches: dict[str, Launch] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)  # by host, of the program that reads

    def _open(self) -> None:
        """Ask where the hosts keep the files of a container. What gives no such answer is lost."""
        for host in self.plan.hosts:
            self.launches[host.name] = _launch(self.plan)
        orders = {name: {"key": launch.run_key, "host": name} for name, launch in self.launches.items()}
        for name, answer in self.talk.documents("container_place", orders, limit_s=PLACE_S).items():
            try:
                place = HostPlace(str(answer["directory"]), str(answer["secrets"]), int(answer["uid"]))
            except (LookupError, TypeError, ValueError):
                lose_for_answer(self.talk, name, "container_place")
                continue
            self.places[name] = place

    def read(self, names: list[str]) -> dict[str, Any]:
        """By host, what the program in a container answered: limits, names, directories, versions."""
        self._open()
        # with little time left, a container that hangs must not take that of what comes after it
        limit_s = max(1.0, min(READ_S, PART_SHARE * self.talk.cap_s((READ_S + START_S) / PART_SHARE)))
        source = (collection_root() / "trainer" / "container_check.py").read_text(encoding="utf-8")
        fields = {}
        for host in self.plan.hosts:
            if host.name in self.places:
                file = FILE + self.launches[host.name].token
                order = {"names": names, "directories": _directories(host), "file": file}
                fields[host.name] = self.fields(host.name, source, order, limit_s=limit_s)
                if host.shared_dir:  # a container that is killed leaves it there; its other directory is its own
                    spec = fields[host.name]["spec"]
                    spec["owned_paths"] = [*spec["owned_paths"], f"{host.shared_dir}/{file}"]
        self.answers = self.talk.documents("container_run", fields, limit_s=limit_s + START_S + REMOVE_S)
        return self.answers

    def pythons(self) -> dict[str, str]:
        """The Python of each container that has torch."""
        found = {}
        for name, answer in self.answers.items():
            parts = _parts(answer)
            if name not in self.talk.lost and parts.get("versions", {}).get("torch"):
                found[name] = str(parts.get("start", {}).get("python") or PROGRAMS[0])
        return found

    def fields(
        self, name: str, source: str, order: Mapping[str, Any], *, limit_s: float, python: str = ""
    ) -> dict[str, Any]:
        """Fields of the order `container_run` for one host. `python`: that of the image, where it is known."""
        host = next(host for host in self.plan.hosts if host.name == name)
        launch, unit = self.launches[name], host.agent_template or host.rank_template
        spec = launch.host_spec(_bare(host), self.places[name])
        spec |= {
            "head": True,
            "continues": False,
            "leases": [],
            "slots": {},
            "secrets": dict.fromkeys(_secrets(unit), ""),
        }
        pythons = [python] if python else list(dict.fromkeys([*_pythons(unit), *PROGRAMS]))
        words = ["sh", "-c", START, "check", f"{limit_s + REMOVE_S:.0f}", source, json.dumps(order), *pythons]
        start_s = max(LEAST_START_S, min(START_S, PART_SHARE * self.talk.cap_s(START_S / PART_SHARE)))
        return {"key": launch.run_key, "host": name, "spec": spec, "words": words, "limit_s": limit_s,
                "start_s": start_s}  # fmt: skip

    def end(self) -> None:
        """Have the hosts remove what all containers needed, and say what is left of any; None: they did not say."""
        found = self.talk.documents("container_end", {name: {} for name in self.places}, limit_s=PLACE_S)
        for name in self.places:
            self.answers.setdefault(name, {})["end"] = found.get(name)


def containers_of(talk: TimedOrders, plan: str) -> JobContainers | None:
    """The containers of the plan in this file; None without one."""
    return JobContainers(talk, plan_from_json(read_json(Path(plan)))) if plan else None


def _parts(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By name, the parts that a program printed; none of what has another form."""
    row = answer.get("program")
    value = row.get("value") if isinstance(row, dict) else None
    rows = value.get("parts") if isinstance(value, dict) else None
    return {str(part.get("part")): part for part in rows if isinstance(part, dict)} if isinstance(rows, list) else {}


def _launch(plan: Plan) -> Launch:
    """A run of a host of its own: what one host removes is never another's."""
    return Launch(
        plan=plan, run_id=RUN, attempt=1, port=plan.port_range[0], owner=user_name(), created=time.time(),
        token=secrets.token_hex(8), version=__version__,
    )  # fmt: skip


def _bare(host: HostPlan) -> HostPlan:
    """The host with one container that has no command yet: that of its first rank, or of its torchrun."""
    if host.agent_template is not None:
        return replace(host, agent_template=_without_command(host.agent_template))
    first = host.ranks.start
    return replace(host, ranks=range(first, first + 1), rank_template=_without_command(host.rank_template))


def _without_command(unit: Unit) -> Unit:
    return replace(unit, create=unit.create[: len(unit.create) - len(unit.argv)])


def _secrets(unit: Unit) -> list[str]:
    """Names of the files that the container expects where secrets are. They stay empty."""
    found = [var.name for var in unit.env if var.is_secret]
    within = CONTAINER_SECRETS + "/"
    return found + [var.value.removeprefix(within) for var in unit.env if var.value.startswith(within)]


def _pythons(unit: Unit) -> list[str]:
    """The Python that the job's command names."""
    return [word for word in unit.argv if PYTHON.match(posixpath.basename(word))][:1]


def _directories(host: HostPlan) -> dict[str, str]:
    """Directories of a rank that it must be able to write to, as it sees their paths. Others are the image's."""
    found = {"work directory": host.workdir} if host.source_dir else {}
    return found | ({"shared directory": host.shared_dir} if host.shared_dir else {})
