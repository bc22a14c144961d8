"""Lost hosts: silent ones and those without a guard; a controller that stalls loses none."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import write_json
from ddp_play.errors import NotTakenOver
from ddp_play.guard.protocol import encode
from ddp_play.run import judged_outcome
from ddp_play.run.lost_hosts import declare_stuck, give_up_on_lost_hosts, gone
from ddp_play.run.stop_decision import GangView
from tests.unit.run.conftest import OK, Make, Stage, done
from tests.unit.run.test_collect_and_clean import gang_of


def test_a_guard_that_is_gone_is_a_lost_host(make: Make) -> None:
    stage = make(2)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].guard_gone = True
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host, outcome.verdict.exit_code) == ("host_lost", "h2", 69)
    assert "its guard is gone" in outcome.verdict.message
    assert (outcome.missing, outcome.left) == ((), {}), (
        "the host itself answers: its files are collected and it is cleaned"
    )
    assert outcome.verdict.hint == "the files of all hosts are in the bundle", "nothing is left for attach to collect"
    assert "clean" in stage.far["h2"].kinds()


@pytest.mark.parametrize("handler", ["none", "exits with 0"])
def test_a_host_that_shuts_down_is_a_lost_host(make: Make, handler: str) -> None:
    stage = make(2)
    own = {"exit_code": 0, "signal": None} if handler == "exits with 0" else {}
    stage.ends_on_stop("h1", **own)
    down = "the host is shutting down"
    ended = {"state": "exited", "ended": 3.0, "exit_code": 143, "signal": 15, "stopped": True, **own}
    stage.on_follow("h2", stage.state("h2", "ended", reason=down, **ended))
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host, outcome.verdict.exit_code) == ("host_lost", "h2", 69)
    assert outcome.verdict.message.endswith(f": {down}"), outcome.verdict.message


def test_lost_hosts_and_those_that_shut_down_take_no_part_in_a_restart(make: Make) -> None:
    links = gang_of(make(4)).links
    links[1].lost = "silent for 30 s"
    for link in links[:3]:
        link.state = {"reason": "the host is shutting down" if link is links[2] else "a rank on this host failed"}
    found = gone(SimpleNamespace(links=links))  # type: ignore[arg-type]
    assert found == {"h2": "silent for 30 s", "h3": "the host is shutting down"}


def test_a_silent_host_is_lost_after_its_timeout(make: Make) -> None:
    stage = make(2, host_timeout=1.5)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = []
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "host_lost"
    assert "silent for" in outcome.verdict.message
    assert outcome.missing[0]["host"] == "h2"
    assert "ddp-play attach calm-otter-1 collects it" in outcome.left["h2"][0]
    assert outcome.verdict.hint == "when h2 is back, ddp-play attach RUN collects its files"
    assert "clean" not in stage.far["h2"].kinds()


def test_a_controller_that_stalled_loses_no_host(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that was closed for a while: no host is lost because of it."""
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.05)
    stage = make(2, host_timeout=0.6)
    slept: list[float] = []

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        if len(slept) == 3:
            time.sleep(1.5)
        slept.append(1.0)
        ends = [stage.state("h2", "ended", **OK)] if len(slept) > 6 else []
        return [encode("beat", guard_gone=False), *ends]

    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = beat
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert len(slept) > 6


RUNNING, ENDED = {"ranks": {"0": {"state": "running"}}}, {"ranks": {"0": {"state": "exited"}}}


@pytest.mark.parametrize(
    ("link", "lost", "ranks_lost"),
    [
        ({"state": RUNNING}, "", ""),
        ({"state": RUNNING, "silent": 29.0}, "", ""),
        ({"state": RUNNING, "silent": 31.0}, "silent for 31 s", ""),
        ({"state": {}, "silent": 31.0}, "silent for 31 s", ""),
        ({"state": ENDED, "silent": 31.0}, "", ""),
        ({"state": {"ranks": {**RUNNING["ranks"], "1": {"state": "exited"}}}, "silent": 31.0}, "silent for 31 s", ""),
        (
            {"state": RUNNING, "guard_gone": True},
            "",
            "its guard is gone: the host was rebooted, or the guard was killed",
        ),
        ({"state": RUNNING, "guard_gone": True, "silent": 31.0}, "silent for 31 s", ""),
        ({"state": ENDED, "guard_gone": True}, "", ""),
        ({"state": RUNNING, "guard_gone": True, "ranks_lost": "known"}, "", "known"),
    ],
)
def test_which_hosts_are_given_up(make: Make, link: dict[str, Any], lost: str, ranks_lost: str) -> None:
    stage = make(1, network="")
    gang = gang_of(stage)
    journal = Journal(stage.paths.events)
    (found,) = gang.links
    known = bool(link.get("ranks_lost"))
    found.state, found.guard_gone = link["state"], bool(link.get("guard_gone"))
    found.ranks_lost = link.get("ranks_lost", "")
    for _ in range(2):
        found.heard = time.monotonic() - link.get("silent", 0.0)
        give_up_on_lost_hosts(gang, journal, host_timeout_s=30.0)
    assert (found.lost, found.ranks_lost) == (lost, ranks_lost)
    told = [(event["host"], event["state"], event["why"]) for event in stage.events("host")]
    assert told == ([("h1", "lost", lost or ranks_lost)] if (lost or ranks_lost) and not known else [])


def test_hosts_whose_ranks_do_not_end_are_marked_and_no_others(make: Make) -> None:
    stage = make(3)
    gang = gang_of(stage)
    rows = [("h1", "running"), ("h2", "exited"), ("h3", "lost")]
    view = GangView(tuple(RankOutcome(rank, host, state) for rank, (host, state) in enumerate(rows)))
    declare_stuck(gang, Journal(stage.paths.events), view)
    why = "its ranks did not end after the stop signal"
    assert [link.ranks_lost for link in gang.links] == [why, "", ""]
    assert [(event["host"], event["state"], event["why"]) for event in stage.events("host")] == [("h1", "lost", why)]


def quiet(name: str, state: dict[str, Any], silent_s: float) -> Any:
    """The link of a host that was silent for so long."""
    fields = {"lost": "", "ranks_lost": "", "guard_gone": False, "silent_s": lambda: silent_s}
    return SimpleNamespace(name=name, state=state, **fields)


def test_every_host_is_looked_at_and_the_limit_itself_is_not_too_long(make: Make) -> None:
    stage = make(1, network="")
    links = [quiet("h1", ENDED, 99.0), quiet("h2", RUNNING, 30.0), quiet("h3", RUNNING, 30.1), quiet("h4", {}, 40.0)]
    gang: Any = SimpleNamespace(links=links, notice_stalls=lambda: None)
    give_up_on_lost_hosts(gang, Journal(stage.paths.events), host_timeout_s=30.0)
    assert [link.lost for link in links] == ["", "", "silent for 30 s", "silent for 40 s"]


@pytest.mark.parametrize(
    ("ranks", "given_up"),
    [({}, True), (None, True), ({"0": {}}, True), ({"0": {"state": "exited"}, "1": {"state": "exited"}}, False)],
)
def test_a_host_whose_ranks_have_all_ended_is_not_given_up(make: Make, ranks: Any, given_up: bool) -> None:
    link = quiet("h1", {"ranks": ranks}, 31.0)
    gang: Any = SimpleNamespace(links=[link], notice_stalls=lambda: None)
    give_up_on_lost_hosts(gang, Journal(make(1, network="").paths.events), host_timeout_s=30.0)
    assert bool(link.lost) == given_up


@pytest.fixture
def orphan(make: Make, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A run without a supervisor; h2 does not answer."""
    monkeypatch.setattr("ddp_play.run.supervisor.OPEN_S", 0.3)
    stage = make(2, host_timeout=0.5)
    stage.ends_on_stop("h1")
    stage.far["h2"].answers["open"] = []
    return stage


def test_attach_takes_over_nothing_while_a_host_does_not_answer(orphan: Stage) -> None:
    with pytest.raises(NotTakenOver, match="no channel to\nh2: no answer") as caught:
        orphan.supervisor().take_over()
    assert caught.value.hint.endswith("to end the run on the other hosts: ddp-play stop calm-otter-1")
    assert "stop" not in orphan.far["h1"].kinds()


def test_a_stop_takes_over_though_a_host_does_not_answer(orphan: Stage) -> None:
    """Nothing could end the ranks of the other hosts, and the run never ended."""
    write_json(orphan.paths.stop_request(now=False), {"reason": "on request"})
    outcome = orphan.supervisor().take_over()
    assert outcome.status is RunStatus.STOPPED
    assert "clean" in orphan.far["h1"].kinds()
    assert list(outcome.left) == ["h2"]
    assert "also whether its ranks still run: silent for" in outcome.left["h2"][0]
    assert orphan.document["uncollected"] == [{"attempt": 1, "host": "h2"}]
    assert [row["state"] for row in orphan.events("host")] == ["silent", "lost"]


def test_a_stop_after_the_verdict_collects_from_the_hosts_that_answer(orphan: Stage) -> None:
    done(orphan, "h1")
    orphan.state("h1", "ended", **OK)
    verdict = Verdict("done", "both ranks ended with 0", exit_code=0)
    judged_outcome.store(orphan.paths, 1, Outcome(RunStatus.SUCCEEDED, verdict, ()))
    write_json(orphan.paths.stop_request(now=False), {"reason": "on request"})
    outcome = orphan.supervisor().take_over()
    assert (outcome.status, list(outcome.left)) == (RunStatus.SUCCEEDED, ["h2"])
    assert orphan.document["uncollected"] == [{"attempt": 1, "host": "h2"}]


def test_where_no_host_knows_the_run_a_stop_takes_over_nothing(orphan: Stage) -> None:
    orphan.far["h1"].state = {}
    write_json(orphan.paths.stop_request(now=False), {"reason": "on request"})
    with pytest.raises(NotTakenOver, match="h2: no answer"):
        orphan.supervisor().take_over()
