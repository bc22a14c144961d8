"""The mark of a host that takes no new runs: what counts, what does not, and whom it refuses."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_drain as module
from ansible_collections.ddp.play.plugins.modules import host_quarantine as quarantine_module

from ddp_play.guard import guard_leases, guard_start, host_drain, leases, slot_queue
from ddp_play.guard.refusal import Refused
from ddp_play.guard.slot_order import Ticket
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import RUN, spec

WHO = "reboot by kim from login1"
QUARANTINED = {
    "reason": "mtu: 1400", "by": "kim", "controller": "login1", "evidence": [{"check": "mtu"}],
    "level": "quick", "checks": ["mtu"], "num_hosts": 4,
}  # fmt: skip


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    return tmp_path / "drain.json"


def text(**fields: Any) -> str:
    return json.dumps({"reason": WHO, "until": time.time() + 600, "closed": False, **fields})


def test_the_module_writes_what_the_guard_reads(mark: Path) -> None:
    assert str(module.MARK) == host_drain.MARK
    assert host_drain.problem() == ""
    module.write(mark, WHO, time.time() + 600)
    assert host_drain.find() == (f"the host takes no new runs: {WHO}", False, "")
    assert module.read(mark, time.time()) == json.loads(mark.read_text())
    module.write(mark, WHO, time.time() + 600, closed=True)
    assert host_drain.find() == (f"the host takes no new runs: {WHO}", True, "")


def test_a_mark_that_has_ended_does_not_count(mark: Path) -> None:
    mark.write_text(text(until=time.time() - 1))
    assert host_drain.problem() == ""
    assert module.read(mark, time.time()) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"until": "soon"}', "[" * 3000])
def test_an_unreadable_mark_counts_and_is_named(mark: Path, content: str) -> None:
    mark.write_text(content)
    assert f"{mark} cannot be read" in host_drain.problem()


def test_a_directory_or_a_link_in_its_place_never_hangs(mark: Path) -> None:
    mark.symlink_to("/dev/zero")
    assert "cannot be read" in host_drain.problem()
    mark.unlink()
    os.mkfifo(mark)
    assert host_drain.problem() == "", "nobody but root can make one there"


def test_a_mark_of_another_user_does_not_count(mark: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root alone can give files away")
    mark.write_text(text())
    os.chown(mark, 65534, 65534)
    assert host_drain.problem() == ""


def test_words_of_the_mark_cannot_control_a_terminal(mark: Path) -> None:
    mark.write_text(text(reason="a\x1b[2Jb" + "c" * 500))
    assert "\x1b" not in host_drain.problem()
    assert len(host_drain.problem()) < 300


def test_new_runs_are_refused_and_runs_that_are_there_go_on(mark: Path) -> None:
    wanted = {"slots": {"names": ["slot-0"], "need": 1}}
    mark.write_text(text())
    with pytest.raises(Refused, match=WHO) as caught:
        host_drain.check(wanted)
    assert (caught.value.kind, "--wait" in caught.value.hint) == ("slots", True)
    for missing in (wanted, {**wanted, "continues": True}):  # a run that goes on has never been on this spare
        with pytest.raises(guard_leases.NotFreeError):
            guard_leases.take_slots(missing)
    here = {**wanted, "continues": True, "was_here": True}
    host_drain.check(here)
    for lease in guard_leases.take_slots(here):
        lease.close()
    mark.write_text(text(closed=True))
    with pytest.raises(Refused, match=WHO):
        host_drain.check(here)
    with pytest.raises(guard_leases.NotFreeError):
        guard_leases.take_slots(here)


def test_a_new_run_is_refused_before_anything_of_it_is_on_the_host(tmp_path: Path, mark: Path) -> None:
    """The real program on the host: the preparation reads the mark."""
    mark.write_text(text())
    with Line(tmp_path) as line:
        line.ask("open", **RUN)
        answer = line.ask("prepare", spec=spec("true", tmp_path))
    assert (answer["t"], answer["error"]) == ("refused", "slots")
    assert WHO in answer["message"]
    assert not (tmp_path / "runs" / "night.0123456789abcdef" / "1.h1").exists()


def test_a_guard_that_found_the_mark_says_who_drains_the_host(mark: Path) -> None:
    mark.write_text(text())
    with pytest.raises(Refused, match=WHO) as caught:
        guard_start._not_started({}, leases.SLOTS_TAKEN)
    assert caught.value.kind == "slots"


def test_a_run_in_the_queue_waits_until_the_host_takes_runs_again(mark: Path) -> None:
    ticket = Ticket(time=time.time(), token="t", host="h", need=1, names=("slot-0",), run="night")
    place = slot_queue.QueuePlace()
    mark.write_text(text())
    answer = place.look(ticket)
    assert (answer["ready"], WHO in answer["problem"]) == (False, True)
    mark.unlink()
    assert place.look(ticket)["ready"]
    place.leave()


def in_quarantine(mark: Path, **fields: Any) -> Path:
    path = mark.parent / "quarantine.json"
    path.write_bytes(quarantine_module.content({**QUARANTINED, **fields}, since=0.0))
    return path


def why() -> str:
    found = host_drain.quarantine()
    return found.why if found is not None else ""


def test_a_host_in_quarantine_takes_no_new_runs_and_tells_all_about_it(mark: Path) -> None:
    assert str(quarantine_module.MARK) == host_drain.QUARANTINE
    assert quarantine_module.OWN == host_drain.OWN_QUARANTINE
    assert quarantine_module.MAX_BYTES == host_drain.MAX_BYTES
    assert host_drain.quarantine() is None
    in_quarantine(mark)
    text = "in quarantine since 1970-01-01 00:00 UTC (kim from login1): mtu: 1400"
    assert host_drain.quarantine() == (text, False, "quick", ["mtu"], 4)
    assert host_drain.find() == (
        f"the host takes no new runs: {text}",
        False,
        host_drain.RELEASE + ("" if os.geteuid() == 0 else " -b"),
    )
    with pytest.raises(Refused, match="in quarantine") as caught:
        host_drain.check({})
    assert (caught.value.kind, "check -i INVENTORY --release" in caught.value.hint) == ("host_not_ready", True)
    host_drain.check({"was_here": True})


def test_a_run_in_the_queue_does_not_wait_for_a_host_in_quarantine(mark: Path) -> None:
    ticket = Ticket(time=time.time(), token="t", host="h", need=1, names=("slot-0",), run="night")
    place = slot_queue.QueuePlace()
    assert place.look(ticket)["ready"]
    in_quarantine(mark)
    with pytest.raises(Refused, match="in quarantine since") as caught:
        place.look(ticket)
    assert caught.value.kind == "host_not_ready"
    place.leave()


def test_an_own_quarantine_is_in_the_users_directory_and_says_so(mark: Path) -> None:
    own = mark.parent / host_drain.OWN_QUARANTINE
    in_quarantine(mark).rename(own)
    found = host_drain.quarantine()
    assert found is not None
    assert found.own
    assert found.why.startswith("in quarantine for the own runs of this user since 1970-01-01")
    assert host_drain.problem().endswith(found.why)
    in_quarantine(mark, reason="its fan is loud", level="")
    found = host_drain.quarantine()
    assert found is not None
    assert (found.own, found.level, "fan" in found.why) == (False, "", True)


def test_a_drain_and_a_quarantine_do_not_undo_each_other(mark: Path) -> None:
    path = in_quarantine(mark)
    mark.write_text(text(closed=True))
    assert host_drain.find() == (f"the host takes no new runs: {WHO}", True, "")
    mark.write_text(text(until=time.time() - 1))
    assert "in quarantine" in host_drain.problem()
    mark.write_text(text())
    path.unlink()
    assert (why(), WHO in host_drain.problem()) == ("", True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"since": "soon"}', '{"since": 1e999}', "[" * 3000])
def test_an_unreadable_quarantine_counts_and_is_named(mark: Path, content: str) -> None:
    path = mark.parent / "quarantine.json"
    path.write_text(content)
    assert f"{path} cannot be read" in why()
    assert f"{path} cannot be read" in host_drain.problem()


def test_words_of_a_quarantine_cannot_control_a_terminal(mark: Path) -> None:
    in_quarantine(mark, reason="a\x1b[2Jb", by="\x07", checks=["\x1b"], level="\x1b")
    found = host_drain.quarantine()
    assert found is not None
    assert not {"\x1b", "\x07"} & set("".join([host_drain.problem(), found.why, found.level, *found.checks]))


@pytest.mark.parametrize("letter", ["r", "\U0001f600", "\x00", "\ud800"])
def test_the_longest_mark_can_be_read(mark: Path, letter: str) -> None:
    long = dict.fromkeys(("reason", "by", "controller", "level"), letter * 999)
    in_quarantine(mark, **long, checks=[letter * 999] * 99, evidence=[{letter: letter}] * 99)
    assert "cannot be read" not in why()
