"""Checkpoints on disk: complete, or recognized as incomplete."""

import json
from pathlib import Path

import pytest
import torch

from trainer import checkpoint
from trainer.checkpoint import Checkpoint
from trainer.errors import TrainerError


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
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000006"]  # the temporary directory is removed too
