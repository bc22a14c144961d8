"""Body of the action plugin `supervise`: the plan of a run directory, over fake hosts."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.engines.route import Route
from ddp_play.errors import HostUnfit, UsageError
from ddp_play.guard.protocol import encode
from ddp_play.planning.refused_hosts import Refused
from ddp_play.run.job_check import Judged
from ddp_play.run.restart_loop import RestartLoop
from ddp_play.run.run_hooks import RunHooks
from ddp_play.run.source_snapshot import read_snapshot
from ddp_play.run.supervise_action import supervise_run
from ddp_play.testing import FakeChannel, FakeHost
from tests.unit.build import job
from tests.unit.run.conftest import Make, Stage, done
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def run_directory(make: Make, **values: Any) -> Stage:
    """What `plan` and `discover` leave for `supervise`: plan.json, job.json, channels.json and a token."""
    stage = make(1, network="", **values)
    done(stage, "h1")
    routes = [Route(name, ("ssh", name), "channel").to_json() for name in stage.far]
    write_json(stage.paths.plan, stage.plan.to_json())
    write_json(stage.paths.root / "job.json", job(network="", probe=False, **values).model_dump(mode="json"))
    write_json(stage.paths.channels, {"routes": routes})
    write_json(stage.paths.run, {**stage.document, "token": "ab12"})
    return stage


def supervise(stage: Stage) -> RunStatus:
    return supervise_run(
        str(stage.paths.root),
        secret_values={"KEY": "hunter2"},
        registry={},
        become_passwords={"h1": "open sesame"},
        ssh_passwords={"h1": "hunter3"},
    ).status


def test_the_plan_runs_with_the_runs_token_and_secrets(make: Make) -> None:
    stage = run_directory(make)
    assert supervise(stage) is RunStatus.SUCCEEDED
    assert stage.far["h1"].order("open")["token"] == "ab12"
    assert stage.far["h1"].order("prepare")["secrets"] == {"KEY": "hunter2"}
    assert stage.far.passwords == {"h1": "open sesame"}
    assert stage.far.ssh_passwords == {"h1": "hunter3"}
    assert "source" not in stage.document


def test_channels_of_discovery_are_used_or_closed(make: Make) -> None:
    stage = run_directory(make)
    used, left_out = FakeChannel(stage.far["h1"]), FakeChannel(FakeHost("h9"))
    channels: Any = {"h1": used, "h9": left_out}
    outcome = supervise_run(
        str(stage.paths.root),
        secret_values={},
        registry={},
        become_passwords={},
        ssh_passwords={},
        channels=channels,
    )
    assert outcome.status is RunStatus.SUCCEEDED
    assert stage.far["h1"].channels == [used]
    assert left_out.broken


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_source_is_recorded(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int) -> None:
    """Of a run that may restart the archive is kept until its end."""
    archives: list[bool] = []
    monkeypatch.setattr(
        "ddp_play.run.supervise_action.RestartLoop.run",
        lambda loop: archives.append(loop.paths.source_archive.exists()),
    )
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print()")
    stage = run_directory(make, source=str(code), restarts=restarts)
    supervise_run(str(stage.paths.root), secret_values={}, registry={}, become_passwords={}, ssh_passwords={})
    source = stage.document["source"]
    assert (source["path"], source["files"], len(source["sha256"])) == (str(code), 1, hashlib.sha256().digest_size * 2)
    assert archives == [bool(restarts)]
    if restarts:
        assert list(read_snapshot(stage.paths.source_archive, "").manifest) == ["train.py"]


def test_an_error_before_the_first_attempt_is_in_run_json(make: Make, tmp_path: Path) -> None:
    stage = run_directory(make, source=str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere is not a directory"):
        supervise(stage)
    document = read_json(stage.paths.run)
    assert (document["status"], document["exit_code"]) == ("failed", 64)
    assert stage.far["h1"].orders == []


def test_the_given_rules_judge_the_hosts_of_the_job(make: Make) -> None:
    stage = run_directory(make)
    stage.far["h1"].answers["check_read"] = [encode("check_read", b"{}")]
    asked: list[Any] = []

    def judge(of_job: Any, plan: Any, _facts: Any, answers: Any) -> Judged:
        asked.append((of_job.name, plan.world_size, answers))
        return Judged((Refused("h1", "no room"),))

    with pytest.raises(HostUnfit, match="h1: no room"):
        supervise_run(
            str(stage.paths.root), secret_values={}, registry={}, become_passwords={}, ssh_passwords={}, judge=judge
        )
    assert asked == [("", 1, {"h1": {"readings": {}}})]
    assert read_json(stage.paths.run)["status"] == "failed"
    assert not (stage.paths.root / ".reserve").exists(), "a finished bundle has none"


@pytest.mark.parametrize("error", [KeyError("hunter2"), OSError(5, "Input/output error")])
def test_an_error_of_the_supervisor_itself_is_told_as_the_end(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Nothing was told: run.json does not call it an end, because ranks may go on."""
    told = tmp_path / "told"
    stage = run_directory(make, hook=["sh", "-c", f"cat > {told}.new; mv {told}.new {told}"])

    def fails(_loop: RestartLoop) -> None:
        raise error

    monkeypatch.setattr(RestartLoop, "run", fails)
    with pytest.raises(type(error)):
        supervise(stage)
    wait_until(told.exists, what="the message")
    message = json.loads(told.read_text())
    assert (message["event"], message["exit_class"], message["exit_code"]) == ("end", "internal", 70)
    assert type(error).__name__ in message["message"]
    assert "hunter2" not in told.read_text()
    assert "ddp-play attach" in message["hint"]


def test_that_there_is_a_webhook_is_known_later_and_its_url_is_not(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = run_directory(make)
    monkeypatch.setattr(RunHooks, "tell", lambda *_, **__: None)
    supervise_run(
        str(stage.paths.root),
        secret_values={},
        registry={},
        become_passwords={},
        ssh_passwords={},
        webhook="http://127.0.0.1:1/abc",
    )
    assert stage.document["webhook"] is True
    texts = [path.read_text() for path in stage.paths.root.rglob("*") if path.is_file()]
    assert not [text for text in texts if "127.0.0.1:1/abc" in text]
