"""`ddp-play check --quarantine` and `--release`: what is ordered, printed, and the exit code."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.checks.check_levels import judge
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.own_records import OwnRecords
from ddp_play.checks.quarantine_marks import Marker
from ddp_play.cli import check_quarantine
from ddp_play.cli.check import document
from ddp_play.cli.check_quarantine import Marked
from ddp_play.errors import UsageError
from ddp_play.planning.host_facts import Quarantine
from ddp_play.testing import FakePlaybookRunner
from tests import schemas
from tests.unit.checks import fleets

MARK = Quarantine("in quarantine since 2026-01-02 (kim from login1): own name: x", False, "quick", ("own name",), 3)
BAD: dict[str, Any] = {"limits.nofile": 1}
ROOT = {"facts.user": dataclasses.replace(fleets.facts(1).user, name="root", uid=0)}
BY_HAND = dataclasses.replace(MARK, level="")


@dataclasses.dataclass
class Hosts:
    """Hosts that carry out every order but those of `failing`; `orders` keeps them."""

    options: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    changed: bool = True
    orders: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def marker(self) -> Marker:
        """The way to them."""
        return Marker(PlaybookRequest("x.yml", ("inv",), "/", self.options), Passwords(), self)

    def run(self, request: PlaybookRequest, *, on_event: Any, **rest: Any) -> Any:
        self.orders = json.loads(Path(request.environment["DDP_PLAY_MARK_ORDERS"]).read_text())
        for host in self.orders:
            kind, res = "runner_on_ok", {"changed": self.changed, "kept": ""}
            if host in self.failing:
                kind, res = "runner_on_failed", {"msg": "cannot change /x: Read-only file system"}
            on_event({"event": kind, "event_data": {"host": host, "res": res}})
        return FakePlaybookRunner().run(request, on_event=on_event, **rest)


def act(fleet: Fleet, hosts: Hosts, *, release: bool = False) -> Marked:
    return check_quarantine.chosen(quarantine=not release, release=release).act(fleet, hosts.marker, level="quick")


def results(marked: Marked) -> list[tuple[str, str]]:
    return [(row.host, row.result) for row in marked.rows]


def printed(marked: Marked, capsys: pytest.CaptureFixture[str]) -> str:
    marked.show()
    shown = capsys.readouterr()
    return shown.out + shown.err


def checked(fleet: Fleet, marked: Marked) -> dict[str, Any]:
    """The answer for programs, which fits its schema."""
    findings = judge(fleet, "quick", fleets.ASKED)
    answer = {**document(findings, "quick", fleet, OwnRecords((), ())), **marked.to_json(findings)}
    schemas.check("check", answer)
    return {**answer, "exit_code": marked.exit_code(findings)}


def test_without_the_options_nothing_is_added() -> None:
    fleet, hosts = fleets.fleet(3, h2=BAD), Hosts()
    choice = check_quarantine.chosen(quarantine=False, release=False)
    marked = choice.act(fleet, hosts.marker, level="quick")
    assert hosts.orders == {}
    as_root = Hosts(("--become",)).marker.request
    assert choice.asking(as_root) == as_root
    assert "quarantine" not in checked(fleet, marked)
    assert checked(fleet, marked)["exit_code"] == 1


def test_a_host_that_failed_is_marked_for_everybody_with_its_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    fleet, hosts = fleets.fleet(3, h2=BAD), Hosts(("--become",))
    marked = act(fleet, hosts)
    order = hosts.orders["h2"]
    assert (order["state"], order["level"], order["checks"], order["num_hosts"]) == (
        "quarantined", "quick", ["open files"], 3,
    )  # fmt: skip
    assert order["by"]
    assert "directory" not in order
    text = printed(marked, capsys)
    choice = check_quarantine.chosen(quarantine=True, release=False)
    assert choice.asking(hosts.marker.request).options == (), "ranks are no root's"
    with pytest.raises(typer.Exit):
        marked.end(judge(fleet, "quick", fleets.ASKED))
    assert "quarantined  h2: no new runs of anybody: open files: " in text
    assert "-> mend it, then: ddp-play check -i inv --release -b" in text
    answer = checked(fleet, marked)
    assert (answer["exit_code"], answer["quarantine"]["hosts"][0]["own"]) == (1, False)


def test_the_release_compares_the_same_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(act(fleets.fleet(3, h2=BAD), Hosts(("--become", "--limit", "rack1:&gpu"))), capsys)
    assert "-> mend it, then: ddp-play check -i inv --release -b --limit 'rack1:&gpu'\n" in text


def test_a_login_as_root_needs_no_other_option() -> None:
    hosts = Hosts()
    act(fleets.fleet(3, h2={**BAD, **ROOT}), hosts)
    assert "directory" not in hosts.orders["h2"]


def test_a_user_without_root_keeps_only_the_own_runs_away(capsys: pytest.CaptureFixture[str]) -> None:
    fleet, hosts = fleets.fleet(3, h2={**BAD, "facts.state_dir": "/home/kim/state"}), Hosts()
    text = printed(act(fleet, hosts), capsys)
    assert hosts.orders["h2"]["directory"] == "/home/kim/state"
    assert "no new runs of yours, those of others go on (-b: of anybody)" in text
    assert "check -i inv --release\n" in text


def test_a_host_that_was_in_quarantine_keeps_its_mark() -> None:
    assert results(act(fleets.fleet(3, h2=BAD), Hosts(changed=False))) == [("h2", "already")]


def test_a_mark_that_could_not_be_written_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    marked = act(fleets.fleet(3, h2=BAD), Hosts(failing=("h2",)))
    assert results(marked) == [("h2", "failed")]
    assert "it was not put into quarantine: cannot change /x: Read-only" in printed(marked, capsys)


def test_when_all_fail_nobody_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    fleet, hosts = fleets.fleet(2, h1=BAD, h2=BAD), Hosts()
    marked = act(fleet, hosts)
    assert hosts.orders == {}
    text = printed(marked, capsys)
    assert "all 2 hosts failed: the test or the network is broken; no host was put into quarantine" in text
    answer = checked(fleet, marked)
    assert (answer["exit_class"], answer["exit_code"]) == ("host_not_ready", 69)


def test_a_fault_between_two_hosts_marks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    blocked = [{"peer": "h2", "port": 29500, "result": "timeout"}]
    marked = act(fleets.fleet(4, h1={"saw:ports": blocked}), hosts := Hosts())
    assert hosts.orders == {}
    assert "unclear      h[1-2]: nobody is in quarantine for ports: it cannot be told" in printed(marked, capsys)


def test_nothing_to_do_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no host failed: no host was put into quarantine" in printed(act(fleets.fleet(3), Hosts()), capsys)
    fleet = fleets.fleet(3)
    lost = Fleet((*fleet.hosts, CheckedHost("h4", problem="no route")), fleet.network)
    assert "no host that answered is in quarantine" in printed(act(lost, Hosts(), release=True), capsys)
    marked = act(fleets.fleet(3), Hosts(), release=True)
    assert "no host is in quarantine" in printed(marked, capsys)
    assert checked(fleets.fleet(3), marked)["exit_code"] == 0


def test_a_host_that_passes_is_released(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = fleets.fleet(3, h3={"facts.quarantine": MARK, **ROOT})
    hosts = Hosts()
    marked = act(fleet, hosts, release=True)
    assert hosts.orders == {"h3": {"state": "released", "of_check": True}}
    assert "released     h3: it takes runs again" in printed(marked, capsys)
    assert checked(fleet, marked)["exit_code"] == 0


def test_a_users_own_list_is_released_there() -> None:
    own = {"facts.quarantine": dataclasses.replace(MARK, own=True), "facts.state_dir": "/home/kim/state"}
    hosts = Hosts()
    assert results(act(fleets.fleet(3, h3=own), hosts, release=True)) == [("h3", "released")]
    assert hosts.orders["h3"]["directory"] == "/home/kim/state"


def test_a_host_that_fails_or_that_somebody_excluded_stays(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = fleets.fleet(4, h2={"facts.quarantine": MARK, **BAD, **ROOT}, h3={"facts.quarantine": BY_HAND, **ROOT})
    hosts = Hosts()
    marked = act(fleet, hosts, release=True)
    assert hosts.orders == {}
    assert results(marked) == [("h2", "stays"), ("h3", "stays")]
    text = printed(marked, capsys)
    assert "stays        h2: it fails: open files" in text
    assert "-> ansible h3 -i inv -b -m ddp.play.host_quarantine -a state=released" in text
    assert checked(fleet, marked)["exit_code"] == 1


def test_a_release_that_could_not_be_written_is_said() -> None:
    marked = act(fleets.fleet(3, h3={"facts.quarantine": MARK, **ROOT}), Hosts(failing=("h3",)), release=True)
    assert results(marked) == [("h3", "failed")]
    assert "it was not released: cannot change /x" in marked.rows[0].why


def test_the_remedy_of_a_host_compared_with_too_few_becomes_root_again(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = fleets.fleet(2, h2={"facts.quarantine": MARK})
    text = printed(act(fleet, Hosts(("--become",)), release=True), capsys)
    assert "now 2 answered, and 3 are needed" in text
    assert "with more hosts, or without --limit: ddp-play check -i inv --release -b" in text


def test_both_options_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        check_quarantine.chosen(quarantine=True, release=True)


def test_without_a_plan_no_host_is_said_to_be_fit(capsys: pytest.CaptureFixture[str]) -> None:
    marked = act(Fleet(()), Hosts())
    assert "no host was checked: no host was put into quarantine" in printed(marked, capsys)
