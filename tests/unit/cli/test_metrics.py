"""`ddp-play metrics` of a bundle."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.paths import read_json, write_json
from ddp_play.cli.main import app
from tests.unit.cli.run_directories import make_run, supervised
from tests.waiting import wait_until


def metrics(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["metrics", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("words", [(), ("--every", "5"), ("--tensorboard", "x", "--every", "5")])
def test_nothing_to_write(words: tuple[str, ...]) -> None:
    code, _, err = metrics("-", *words)
    assert code == 64
    assert "give --" in err


@pytest.mark.parametrize(("name", "better"), [("x.txt", "x.prom"), ("x", "x.prom"), (".", "train.prom")])
def test_a_text_file_that_node_exporter_would_not_read(name: str, better: str) -> None:
    make_run("night", created=1.0, ended=2.0, status="succeeded")
    code, _, err = metrics("night", "--prometheus", name)
    assert code == 64
    assert f"--prometheus {better}\n" in err
    assert not Path(name).exists() or name == "."


def test_both_kinds(tmp_path: Path) -> None:
    make_run("night", created=1.0, ended=2.0, status="succeeded")
    code, out, err = metrics("night", "--tensorboard", tmp_path / "logs", "--prometheus", tmp_path / "x.prom")
    assert code == 0, err
    assert "0 values in" in out
    assert 'status="succeeded"} 1.0' in (tmp_path / "x.prom").read_text()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    make_run("night", created=1.0, ended=2.0, status="succeeded")
    (tmp_path / "file").touch()
    (tmp_path / "x.prom").mkdir()
    for words, says in (
        (("--prometheus", tmp_path / "a b" / "x.prom"), f"no directory {tmp_path}/a b\n  -> mkdir -p '{tmp_path}/a b'"),
        (("--prometheus", tmp_path / "x.prom"), f"{tmp_path}/x.prom is a directory\n  -> name a file"),
        (("--prometheus", "/proc/x.prom"), "/proc/x.prom cannot be written: "),
        (("--tensorboard", tmp_path / "file" / "logs"), "cannot be written: "),
    ):
        code, _, err = metrics("night", *words)
        assert (code, says in err) == (64, True), err


def test_again_until_the_run_ends(tmp_path: Path) -> None:
    paths = make_run("night", created=time.time(), ended=None, status="running")
    path, code = tmp_path / "x.prom", []
    thread = threading.Thread(target=lambda: code.append(metrics("night", "--prometheus", path, "--every", 0.05)[0]))
    with supervised(paths):
        thread.start()
        wait_until(path.exists, timeout_s=30, what="the file")
        assert thread.is_alive()
        write_json(paths.run, {**read_json(paths.run), "status": "failed", "ended": time.time(), "finished": True})
    thread.join(30)
    assert code == [0]
    assert 'status="failed"} 1.0' in path.read_text()


def test_a_run_without_a_supervisor_ends_the_repetition(tmp_path: Path) -> None:
    """It went on for ever, as if the run did."""
    make_run("night", created=time.time(), ended=None, status="running")
    path = tmp_path / "x.prom"
    code, _, err = metrics("night", "--prometheus", path, "--every", 0.05)
    assert code == 70
    assert "run night has no supervisor any more" in err
    assert path.exists()
    assert metrics("night", "--prometheus", path)[0] == 0
