"""`python -m trainer train` as a launcher starts it: files it writes, exact resume, failures that end the job."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.dist.gang import free_port, gang

pytestmark = pytest.mark.dist

TRAIN = ("-m", "trainer", "train", "--backend", "gloo", "--timeout", "60")


def records(directory: Path) -> Any:
    """The launcher's environment variables for files, one set per rank."""
    return lambda rank: {
        "DDP_PLAY_METRICS": str(directory / f"metrics-{rank}.jsonl"),
        "DDP_PLAY_RESULT": str(directory / f"result-{rank}.json"),
        "TORCHELASTIC_ERROR_FILE": str(directory / f"error-{rank}.json"),
    }


def read_results(directory: Path, world_size: int = 2) -> list[dict[str, Any]]:
    return [json.loads((directory / f"result-{rank}.json").read_text()) for rank in range(world_size)]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_two_ranks_learn_to_read_digits(tmp_path: Path) -> None:
    with gang(tmp_path, 2, TRAIN, env=records(tmp_path)) as running:
        assert running.wait() == [0, 0], running.text
        first, second = (rank.text for rank in running.ranks)
    assert len(re.findall(r"(?m)^epoch \d+/12 loss \d\.\d{4} accuracy \d\.\d{4} \d+ samples/s$", first)) == 12
    assert re.search(r"(?m)^test accuracy 0\.9[789]\d\d loss \S+ after 276 steps in \S+ s$", first)
    assert second == ""
    results = read_results(tmp_path)
    assert results[0]["accuracy"] >= 0.97
    assert [result["rank"] for result in results] == [0, 1]
    assert results[0]["parameters_sha256"] == results[1]["parameters_sha256"]
    for rank in (0, 1):
        lines = read_metrics(tmp_path / f"metrics-{rank}.jsonl")
        steps = [line["step"] for line in lines if not {"accuracy", "host"} & line.keys()]
        assert steps == list(range(1, 277))
        assert sum("host" in line for line in lines) == (12 if rank == 0 else 0)  # both ranks share this host
        assert {"time", "rank", "step", "epoch", "loss", "samples_per_s"} <= lines[0].keys()
        assert lines[-1]["accuracy"] == results[0]["accuracy"]
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-00000253", "step-00000276"]


def test_stopped_and_resumed_equals_undisturbed(tmp_path: Path) -> None:
    # with dropout, so that the ranks' random numbers must be right too; rendezvous by file://
    options = (*TRAIN, "--world-size", "2", "--epochs", "2", "--dropout", "0.3", "--checkpoint-dir", "saved")
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def init_method(name: str) -> tuple[str, ...]:
        return ("--init-method", f"file://{tmp_path}/{name}")

    with gang(whole, 2, (*options, *init_method("a")), env=records(whole)) as running:
        assert running.wait() == [0, 0], running.text

    with gang(parts, 2, (*options, *init_method("b"), "--sleep-per-step", "0.03"), env=records(parts)) as running:
        running.wait_until(lambda: len(read_metrics(parts / "metrics-0.jsonl")) > 25)
        # one rank is enough: the ranks agree on the stop in the next report
        os.kill(running.ranks[1].process.pid, signal.SIGTERM)
        assert running.wait() == [143, 143], running.text
    stopped = read_results(parts)[0]
    assert stopped["status"] == "stopped"
    assert 25 <= stopped["steps"] < 46
    saved = json.loads((parts / "saved" / f"step-{stopped['steps']:08d}" / "meta.json").read_text())
    assert saved["progress"]["step_in_epoch"] == stopped["steps"] % 23

    with gang(parts, 2, (*options, *init_method("c")), env=records(parts)) as running:
        assert running.wait() == [0, 0], running.text
        assert f"resuming after step {stopped['steps']}," in running.ranks[0].text
    undisturbed, resumed = read_results(whole)[0], read_results(parts)[0]
    for key in ("parameters_sha256", "accuracy", "loss", "train_loss", "steps"):
        assert resumed[key] == undisturbed[key]


def test_a_killed_rank_ends_the_job(tmp_path: Path) -> None:
    with gang(tmp_path, 2, (*TRAIN, "--sleep-per-step", "0.05"), env=records(tmp_path)) as running:
        running.wait_until(lambda: len(read_metrics(tmp_path / "metrics-1.jsonl")) > 5)
        running.ranks[1].process.kill()
        codes = running.wait(
            30
        )  # half the collective timeout: the rank must see the closed connection, not the timeout
    assert codes[1] == -signal.SIGKILL
    assert codes[0] > 0
    assert not (tmp_path / "result-0.json").exists()
    assert "message" in json.loads((tmp_path / "error-0.json").read_text())


def test_ranks_started_differently_refuse_each_other(tmp_path: Path) -> None:
    arguments = (*TRAIN, "--init-method", f"tcp://127.0.0.1:{free_port()}")
    seeds = ("1", "2")
    with gang(
        tmp_path,
        2,
        arguments,
        per_rank=lambda rank: ("--seed", seeds[rank], "--rank", str(rank), "--world-size", "2"),
        env=records(tmp_path),
    ) as running:
        assert running.wait() == [2, 2], running.text
        assert all("trainer: the ranks do not have the same --seed" in rank.text for rank in running.ranks)
    assert "--seed" in json.loads((tmp_path / "error-1.json").read_text())["message"]["message"]


@pytest.mark.parametrize(
    ("how", "code", "text"), [("refuse", 2, "trainer: refused"), ("fail", 1, "ValueError: failed")]
)
def test_an_error_in_a_joined_group_ends_the_process_without_a_shutdown_that_torch_may_abort(
    tmp_path: Path, how: str, code: int, text: str
) -> None:
    worker = str(Path(__file__).with_name("refusing_worker.py"))
    with gang(tmp_path, 2, (worker, how)) as running:
        assert running.wait() == [code, code], running.text
        for rank in running.ranks:
            assert text in rank.text
            assert "Python's shutdown ran" not in rank.text
