"""Checkpoints, metrics and results: complete or recognisably not."""

import json
import signal
import threading
from pathlib import Path

import pytest
import torch

from trainer import checkpoint, stop_request
from trainer.checkpoint import Checkpoint
from trainer.errors import TrainerError
from trainer.records import MetricsLog, write_json
from trainer.training_run import Progress, seed_step


def save(directory: Path, step: int, keep: int = 2) -> Path:
    state = {"model": {"w": torch.full((3,), float(step))}}
    return checkpoint.save(directory, Checkpoint(state, {"step": step}), step=step, keep=keep)


def test_newest_of_the_kept(tmp_path: Path) -> None:
    for step in (5, 10, 100):
        last = save(tmp_path, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000100"]
    assert checkpoint.newest(tmp_path) == last
    assert json.loads((last / "meta.json").read_text()) == {"step": 100}
    assert torch.load(last / "weights.pt", weights_only=True)["model"]["w"].tolist() == [100.0] * 3


def test_same_step_again_replaces(tmp_path: Path) -> None:
    first = save(tmp_path, 5)
    (first / "extra").touch()
    assert not (save(tmp_path, 5) / "extra").exists()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("weights.pt", b"cut", "weights.pt differs from the manifest"),
        ("meta.json", b"{}", "meta.json differs from the manifest"),
        ("weights.pt", None, "no readable manifest"),
        ("manifest.json", None, "no readable manifest"),
        ("manifest.json", b'{"fil', "no readable manifest"),
        ("manifest.json", b"[]", "no readable manifest"),
    ],
)
def test_an_incomplete_checkpoint_is_passed_over(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    good, bad = save(tmp_path, 5), save(tmp_path, 10)
    if content is None:
        (bad / name).unlink()
    else:
        (bad / name).write_bytes(content)
    assert reason in (checkpoint.problem(bad) or "")
    assert checkpoint.newest(tmp_path) == good
    assert checkpoint.resume_from("auto", tmp_path) == good
    with pytest.raises(TrainerError, match="not a complete checkpoint"):
        checkpoint.resume_from(str(bad), tmp_path)


def test_what_resume_means(tmp_path: Path) -> None:
    assert checkpoint.resume_from("auto", tmp_path / "absent") is None
    assert checkpoint.resume_from("none", tmp_path) is None
    assert checkpoint.resume_from("auto", None) is None
    path = save(tmp_path, 5)
    assert checkpoint.resume_from(str(path), None) == path
    with pytest.raises(TrainerError, match="--resume auto continues it"):
        checkpoint.resume_from("none", tmp_path)


def test_an_interrupted_save_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 5)
    assert checkpoint.newest(tmp_path) is None
    monkeypatch.undo()
    save(tmp_path, 6)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000006"]  # what was left over is gone too


def test_progress_counts_epochs() -> None:
    progress = Progress(loss_sum=6.0, num_samples=3)
    progress.advance(2)
    assert (progress.epoch, progress.step_in_epoch, progress.mean_loss) == (0, 1, 2.0)
    progress.advance(2)
    assert (progress.epoch, progress.step_in_epoch, progress.step) == (1, 0, 2)
    assert (progress.train_loss, progress.mean_loss, progress.num_samples) == (2.0, 2.0, 0)


def test_what_a_step_draws_depends_on_seed_step_and_rank() -> None:
    def draw(*place: int) -> float:
        seed_step(*place)
        return float(torch.rand(()))

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(12, 3, 0), draw(1, 23, 0)}) == 6


def test_metric_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"

    def write(rank: int) -> None:
        with MetricsLog(path, rank=rank) as log:
            for step in range(200):
                log.write(step=step, loss=0.1)

    writers = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["rank"], line["step"]) for line in lines) == [(r, s) for r in range(4) for s in range(200)]


def test_metrics_without_a_path_do_nothing(tmp_path: Path) -> None:
    with MetricsLog(None, rank=0) as log:
        log.write(step=1)
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"accuracy": 0.5})
    with pytest.raises(TypeError):
        write_json(path, {"accuracy": object()})
    assert json.loads(path.read_text()) == {"accuracy": 0.5}


def test_sigterm_sets_a_flag_only_inside_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_request.stop_on_sigterm() as flag:
        assert not flag.requested
        signal.raise_signal(signal.SIGTERM)
        assert flag.requested
    assert signal.getsignal(signal.SIGTERM) is before
    assert stop_request.EXIT_CODE == 143
