"""Assignment of an attempt: its key, whether it continues a run, its links, and its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.engines.route import Route
from ddp_play.run.attempt_assignment import Assignment, links_of
from tests.unit.build import hosts, plan

if TYPE_CHECKING:
    from pathlib import Path


def assignment(tmp_path: Path, **fields: Any) -> Assignment:
    routes = tuple(Route(name, ("ssh", name), "channel") for name in ("h1", "h2", "h3"))
    return Assignment(plan(*hosts(2)), routes, RunPaths(tmp_path / "calm-otter-1"), **fields)


@pytest.mark.parametrize(("num_ended", "continues"), [(0, False), (1, True), (3, True)])
def test_an_attempt_continues_a_run_that_has_ended_attempts(tmp_path: Path, num_ended: int, continues: bool) -> None:
    """A higher attempt number alone does not mean that ranks have run."""
    assert assignment(tmp_path, attempt=4, num_ended=num_ended).continues is continues


@pytest.mark.parametrize(("token", "key"), [("ab12", "calm-otter-1.ab12"), ("", "calm-otter-1")])
def test_the_run_key_has_the_token(tmp_path: Path, token: str, key: str) -> None:
    assert assignment(tmp_path, token=token).run_key == key


def test_links_go_to_the_requested_hosts_with_their_passwords(tmp_path: Path) -> None:
    passwords = {"become_passwords": {"h3": "hunter2"}, "ssh_passwords": {"h1": "hunter3"}}
    links = links_of(assignment(tmp_path, **passwords), {"h1", "h3"})
    assert [(link.name, link.route.host, link.become_password, link.ssh_password) for link in links] == [
        ("h1", "h1", "", "hunter3"),
        ("h3", "h3", "hunter2", ""),
    ]
    assert "hunter" not in repr(links)
    assert links_of(assignment(tmp_path), set()) == []


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    secret = {"NAME": "hunter2"}
    fields = ("secrets", "registry", "become_passwords", "ssh_passwords")
    assert "hunter2" not in repr(assignment(tmp_path, **dict.fromkeys(fields, secret)))
