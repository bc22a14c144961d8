"""Runs of `ddp-play check` on a lab, and defects made and mended on its hosts."""

from __future__ import annotations

import contextlib
import json
import tempfile
from typing import TYPE_CHECKING, Any

from ddp_play.checks.self_test.kinds import DEFECTS
from ddp_play.checks.self_test.lab_hosts import LabHosts, of_plan
from ddp_play.checks.self_test.trial import is_found, that_count
from ddp_play.lab.state import LabState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.checks.self_test.defect import Defect

    from .conftest import Lab


def hosts_of(lab: Lab) -> LabHosts:
    """The hosts of a lab, for commands of defects."""
    state = LabState(lab.home / "lab" / lab.name)
    plan = state.load_plan()
    assert plan is not None
    return of_plan(state.inventory, plan)


def defect_named(name: str) -> Defect:
    """A defect of the self-test's table."""
    (found,) = (defect for defect in DEFECTS if defect.name == name)
    return found


@contextlib.contextmanager
def seeded(lab: Lab, *defects: Defect) -> Iterator[dict[str, str]]:
    """The defects on the hosts, mended at the end."""
    hosts = hosts_of(lab)
    with contextlib.ExitStack() as stack:
        for defect in defects:
            stack.callback(hosts.mend, defect)
            hosts.run(defect.seed)
        yield hosts.values


def run_check(lab: Lab, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings that are no pass and that count, each over a new login: limits are those of a login."""
    with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        environment = {**lab.environment, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        words = ["check", "-i", str(lab.inventory), "--json", *options]
        done = lab.play(*words, environment=environment)
    return done.returncode, [dict(row) for row in that_count(json.loads(done.stdout)["findings"])]


def compare(rows: list[dict[str, Any]], defects: tuple[Defect, ...], known: dict[str, str]) -> None:
    """Each defect has its findings with all their texts, and there is no other one."""
    wanted = [row for defect in defects for row in defect.wanted]
    assert len(rows) == len(wanted), json.dumps(rows, indent=1)
    for one in wanted:
        found = [row for row in rows if is_found(one, row, known)]
        assert len(found) == 1, f"{one}: {json.dumps(rows, indent=1)}"
        texts: tuple[str, ...] = ("why", "command", "limit", "source", "look")
        if one.check == "host reached":
            texts = ("why", "command")
        elif one.result == "not run":
            texts = ()
        assert all(found[0][text] for text in texts), found[0]
