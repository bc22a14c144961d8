"""Acceptance of new hosts: who is accepted, who is put into quarantine, and what is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.quarantine_marks import CHECKED
from ddp_play.cli import acceptance
from ddp_play.cli.acceptance import Acceptance, Accepted, accept
from ddp_play.errors import CheckFailed, HostNotReady
from ddp_play.provisioning.playbook_run import PlaybookPlan
from tests import schemas
from tests.unit.checks import fleets
from tests.unit.cli.test_check_quarantine import BAD, Hosts

if TYPE_CHECKING:
    from ddp_play.ansible.runner import PlaybookRunner

NEW = ("h3", "h4")


class Kept(Hosts):
    """Hosts that keep the marks of all calls in `orders`, and which of them are not new any more in `checked`."""

    def __init__(self, *options: str, failing: tuple[str, ...] = ()) -> None:
        super().__init__(options, failing)
        self.checked: list[str] = []

    def run(self, request: PlaybookRequest, **rest: Any) -> Any:
        before = dict(self.orders)
        done = super().run(request, **rest)
        self.checked += [host for host, order in self.orders.items() if order == CHECKED]
        self.orders = before | {host: order for host, order in self.orders.items() if order != CHECKED}
        return done


def accepted(fleet: Fleet, hosts: Hosts, new: tuple[str, ...] = NEW) -> Accepted:
    return accept(fleet, new, hosts.marker)


def test_new_hosts_as_good_as_the_others_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = Kept("--become")
    found = accepted(fleets.fleet(4), hosts)
    assert (hosts.orders, hosts.checked) == ({}, ["h3", "h4"])
    assert (found.accepted, found.error()) == (NEW, None)
    found.show()
    assert capsys.readouterr().out == "accepted     h[3-4]: no check failed\n"
    assert set(found.to_json()) == {"acceptance"}


def test_one_that_failed_is_in_quarantine_for_everybody(capsys: pytest.CaptureFixture[str]) -> None:
    """Although its login is no root's."""
    hosts = Kept("--become")
    found = accepted(fleets.fleet(4, h4=BAD), hosts)
    assert (hosts.orders["h4"]["state"], "directory" in hosts.orders["h4"]) == ("quarantined", False)
    assert hosts.checked == ["h3", "h4"], "from now on only its release matters"
    error = found.error()
    assert isinstance(error, CheckFailed)
    assert error.message == "h4 was provisioned, and failed the acceptance; in quarantine: runs leave it out"
    assert error.hint == "mend it, then: ddp-play check -i INVENTORY --release -b"
    found.show()
    text = capsys.readouterr().out
    for part in ("FAIL     open files", "quarantined  h4: no new runs of anybody: open files", "accepted     h3: "):
        assert part in text
    document = found.to_json()
    assert (document["exit_class"], document["exit_code"], document["acceptance"]["accepted"]) == (
        "check_failed", 1, ["h3"],
    )  # fmt: skip
    report = {"cells": [], "changes": [], "phases": [], "log": "", "wall_s": 1.0, "num_tasks": 0, "num_changed": 0}
    schemas.check("provision", {**report, "id": "x", "check": False, **document})


def test_the_hosts_that_were_there_before_are_trusted() -> None:
    blocked = [{"peer": "h1", "port": 29500, "result": "timeout"}]
    hosts = Kept()
    found = accepted(fleets.fleet(4, h1=BAD, h4={"saw:ports": blocked}), hosts)
    assert (found.accepted, list(hosts.orders)) == (("h3",), ["h4"])
    assert hosts.orders["h4"]["checks"] == ["ports"]


def test_what_may_be_better_is_shown_and_no_reason_to_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    found = accepted(fleets.fleet(4, h1={"limits.nofile": 2000}, h3={"limits.nofile": 2000}), Kept())
    assert found.accepted == NEW
    found.show()
    text = capsys.readouterr().out
    assert "warn     open files" in text
    assert "accepted     h[3-4]: no check failed" in text


def test_a_mark_that_could_not_be_written_is_no_success_and_is_repeated() -> None:
    hosts = Kept(failing=("h4",))
    error = accepted(fleets.fleet(4, h4=BAD), hosts).error()
    assert isinstance(error, CheckFailed)
    assert "not all could be put into quarantine (above)" in error.message
    assert error.hint == "ddp-play provision -i INVENTORY checks them again"
    assert hosts.checked == ["h3"]


def test_when_too_many_fail_nobody_is_marked_and_the_next_provision_checks_again() -> None:
    hosts = Kept()
    found = accepted(fleets.fleet(3, h1=BAD, h2=BAD, h3=BAD), hosts, ("h2", "h3"))
    assert (hosts.orders, hosts.checked) == ({}, [])
    error = found.error()
    assert isinstance(error, HostNotReady)
    assert "all 3 hosts failed: the test or the network is broken; no host was put into quarantine" in error.message
    assert "h[2-3] not accepted" in error.message
    assert "ddp-play provision -i INVENTORY checks them again" in error.hint


def test_a_new_host_that_fails_nothing_is_accepted_whatever_is_wrong_with_the_others() -> None:
    hosts = Kept()
    found = accepted(fleets.fleet(5, h1=BAD, h2=BAD, h3=BAD), hosts, ("h4", "h5"))
    assert (found.accepted, found.error(), hosts.orders) == (("h4", "h5"), None, {})
    assert hosts.checked == ["h4", "h5"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cpu": {"problem": "lscpu hangs"}}, "checks could not be made: cpu: lscpu hangs"),
        ({"saw:ports": [{"peer": "h4", "port": 29500, "result": "timeout"}]}, "it cannot be told whose fault it is"),
    ],
)
def test_a_host_of_which_not_all_is_known_is_neither_accepted_nor_at_fault(change: dict[str, Any], why: str) -> None:
    hosts = Kept()
    found = accepted(fleets.fleet(4, h3=change), hosts)
    assert why in found.open["h3"]
    assert "h3" not in hosts.checked
    error = found.error()
    assert isinstance(error, HostNotReady)
    assert error.hosts[0] == "h3"


def test_a_host_that_cannot_be_asked_is_open() -> None:
    fleet = fleets.fleet(4)
    lost = Fleet((*fleet.hosts[:3], CheckedHost("h4", problem="no route to host")), fleet.network)
    assert accepted(lost, Kept()).open == {"h4": "it could not be asked: no route to host"}


def test_all_hosts_of_ranks_are_asked_whatever_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    request = PlaybookRequest("x.yml", ("inv",), "/", ("--limit", "h4", "--user", "ops"), tags=("a",))
    asked: list[PlaybookRequest] = []

    def ask(request: PlaybookRequest, _passwords: Passwords, _runner: PlaybookRunner, *, scope: CheckScope) -> Fleet:
        asked.append(request)
        assert scope == CheckScope("quick")
        return fleets.fleet(4)

    hosts = Kept()
    monkeypatch.setattr(acceptance, "AnsibleRunner", lambda: hosts)
    monkeypatch.setattr(acceptance, "ask_fleet", ask)
    follow = Acceptance(PlaybookPlan(request, (), ranks=("h3", "h4")), Passwords())
    assert follow(()) is None
    assert follow(("nfs1",)) is None, "without ranks it is compared with nobody"
    assert asked == []
    found = follow(("h4", "nfs1"))
    assert found is not None
    assert found.accepted == ("h4",)
    assert (asked[0].options, asked[0].tags) == (("--user", "ops", "--limit", "ranks:spares"), ())
