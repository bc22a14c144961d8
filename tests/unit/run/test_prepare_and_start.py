"""Preparation and start over fake hosts: refusals, the port, secrets, the source, env-files."""

from __future__ import annotations

import base64
import errno
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.errors import Busy, HostNotReady
from ddp_play.guard.protocol import encode
from ddp_play.run.attempt_result import NotStarted
from ddp_play.run.presence import Presence
from ddp_play.run.source_snapshot import Snapshot
from ddp_play.run.stop_requests import StopRequests
from ddp_play.run.supervisor import Supervisor
from ddp_play.testing import refusal
from tests.unit.run.conftest import SHARED, Make, done


def test_no_host_starts_before_all_are_prepared(make: Make) -> None:
    stage = make(3)
    stage.far["h3"].answers["prepare"] = refusal("prepare", "image is not on this host", hint="load it")
    with pytest.raises(HostNotReady, match="h3: image is not on this host") as caught:
        stage.supervisor().run()
    assert caught.value.hint == "load it"
    for host in stage.far.values():
        assert "go" not in host.kinds()
        assert host.kinds()[-2:] == ["clean", "bye"]


def test_all_refusals_are_in_one_error(make: Make) -> None:
    stage = make(3)
    for name in ("h1", "h3"):
        stage.far[name].answers["prepare"] = refusal("prepare", f"{name} is full")
    with pytest.raises(HostNotReady) as caught:
        stage.supervisor().run()
    assert caught.value.message == "h1: h1 is full\nh3: h3 is full"


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "is lost"])
def test_hosts_that_wait_for_one_that_fails_are_told(make: Make, refuses: bool) -> None:
    """They waited 60 s for its source, and a restart retired them too."""
    stage = make(3)

    def cut(*_: object) -> list[bytes]:
        stage.far["h1"].channels[-1].cut("no route to host")
        return []

    stage.far["h1"].answers["prepare"] = refusal("prepare", "no MPI for the ranks") if refuses else cut
    for name in ("h2", "h3"):
        stage.far[name].answers["prepare"] = []
        stage.far[name].answers["withdraw"] = refusal("prepare", "the preparation was withdrawn", error="withdrawn")
    with pytest.raises(HostNotReady) as caught:
        stage.supervisor().run()
    assert caught.value.message == ("h1: no MPI for the ranks" if refuses else "h1: no route to host")
    assert caught.value.hosts == ("h1",)
    assert stage.far["h2"].kinds().count("withdraw") == 1
    assert "withdraw" not in stage.far["h1"].kinds()


def test_a_port_that_was_taken_is_leased_again(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    ports = iter([29500, 29501])
    stage.far["h1"].answers["lease_port"] = lambda *_: [encode("leased", port=next(ports))]
    answers = iter([refusal("prepare", "lease taken: port-29500", error="busy"), [encode("prepared", guard_pid=1)]])
    stage.far["h1"].answers["prepare"] = lambda *_: next(answers)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert stage.far["h1"].order("lease_port")["avoid"] == [29500]
    assert stage.document["head_port"] == 29501
    assert stage.far["h2"].kinds().count("clean") == 2, "the other host started afresh too"


def test_a_host_that_was_clean_before_another_try_does_not_count_as_clean_after_it(make: Make) -> None:
    """Its ranks may live: the next attempt would have started beside them."""
    stage = make(2)
    answers = iter([refusal("prepare", "lease taken: port-29500", error="busy"), [encode("prepared", guard_pid=1)]])
    stage.far["h1"].answers["prepare"] = lambda *_: next(answers)

    def cut(*_: object) -> list[bytes]:
        stage.far["h2"].channels[-1].cut("no route to host")
        stage.far["h2"].answers["open"] = []
        return []

    stage.far["h2"].answers["go"] = cut
    ended = Supervisor(stage.supervisor().assignment, StopRequests(stage.paths), Presence()).run()
    assert isinstance(ended, NotStarted)
    assert list(ended.unfenced) == ["h2"]


def test_what_ranks_wrote_before_a_start_was_cut_off_is_kept_for_attach(make: Make) -> None:
    """Some hosts had the start signal: their ranks may have run until the others were given up."""
    stage = make(2, source="/code")
    stage.far["h1"].answers["go"] = refusal("go", "no such guard")
    stage.far["h2"].answers["clean"] = lambda header, _: [
        encode("cleaned", left=[], kept=["/state/h2/src"] if header["keep_src"] else [])
    ]
    with pytest.raises(HostNotReady):
        stage.supervisor().run()
    row = "/state/h2/src: not collected; ddp-play attach calm-otter-1 collects it"
    assert stage.document["left_behind"] == {"h2": [row]}
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2"}]


def test_a_host_that_may_have_started_its_ranks_is_uncollected(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reply to the start signal was lost: gc removed what its ranks had written."""
    monkeypatch.setattr("ddp_play.run.restart_loop.LOST_HOSTS_S", 0.1)
    stage = make(2)

    def cut(*_: object) -> list[bytes]:
        stage.far["h2"].channels[-1].cut("no route to host")
        stage.far["h2"].answers["open"] = []
        return []

    stage.far["h2"].answers["go"] = cut
    with pytest.raises(HostNotReady):
        stage.supervisor().run()
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2"}]
    assert "ddp-play attach calm-otter-1 collects it" in stage.document["left_behind"]["h2"][0]
    assert stage.paths.attempt(1).plan.exists()


def test_a_full_disk_after_the_start_signal_does_not_end_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks run: nobody would have supervised them."""
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)

    def full(path: Path, value: Any) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(path))

    monkeypatch.setattr("ddp_play.run.prepare_and_start.write_json", full)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED


def test_a_port_range_that_stays_taken_is_busy(make: Make) -> None:
    stage = make(1, network="")
    stage.far["h1"].answers["prepare"] = refusal("prepare", "lease taken", error="busy")
    with pytest.raises(Busy, match="h1: lease taken"):
        stage.supervisor().run()
    assert stage.far["h1"].kinds().count("prepare") == 3


def test_no_free_port(make: Make) -> None:
    stage = make(2)
    stage.far["h1"].answers["lease_port"] = refusal(
        "lease_port", "no free port between 29500 and 29999", error="busy", hint="widen ddp_job_port_range"
    )
    with pytest.raises(Busy, match="h1: no free port between 29500 and 29999"):
        stage.supervisor().run()


def test_secrets_go_to_the_hosts_and_nowhere_else(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    given = {
        "secrets": {"TOKEN": "hunter2"},
        "registry": {"password": "hunter3"},
        "become_passwords": {"h1": "hunter4"},
        "ssh_passwords": {"h2": "hunter5"},
    }
    stage.supervisor(**given).run()
    assert stage.far["h1"].order("prepare")["secrets"] == {"TOKEN": "hunter2"}
    assert stage.far["h1"].order("prepare")["registry"] == {"password": "hunter3"}
    assert stage.far.passwords == {"h1": "hunter4", "h2": ""}
    assert stage.far.ssh_passwords == {"h1": "", "h2": "hunter5"}
    written = b"".join(path.read_bytes() for path in stage.paths.root.rglob("*") if path.is_file())
    for secret in (b"hunter", base64.b64encode(b"hunter2")[:6]):
        assert secret not in written


def test_the_source_is_sent_to_the_hosts_that_unpack_it(make: Make) -> None:
    stage = make(2, source="/code")
    for name in ("h1", "h2"):
        done(stage, name)
    archive = bytes(range(256)) * 2000
    stage.supervisor(snapshot=Snapshot(archive, "d1", {})).run()
    for host in stage.far.values():
        pieces = [payload for header, payload in host.orders if header["t"] == "source"]
        assert b"".join(pieces) == archive
        assert pieces[-1] == b"", "the end is announced"


def test_env_files_and_the_hosts_directories_are_in_the_bundle(make: Make) -> None:
    stage = make(2, env={"A": "1"})
    for name in ("h1", "h2"):
        done(stage, name)
    stage.supervisor().run()
    assert stage.document["directories"] == {"h1": "/state/h1", "h2": "/state/h2"}
    text = stage.paths.env(1).read_text()
    assert "\nA=1\n" in text
    assert "\nMASTER_PORT=29500\n" in text
    assert stage.paths.env(1).stat().st_mode & 0o777 == 0o600


def test_a_host_that_is_connected_removes_the_shared_directory(staged: Make) -> None:
    """h1 would remove it, but its channel broke."""
    stage = staged(2)

    def cut(*_: object) -> list[bytes]:
        stage.far["h1"].channels[-1].cut("no route to host")
        return []

    stage.far["h1"].answers["prepare"] = cut
    with pytest.raises(HostNotReady, match="h1: no route to host"):
        stage.supervisor().run()
    assert stage.far["h2"].order("clean")["run_paths"] == [SHARED]
