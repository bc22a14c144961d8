"""Paths of runs, valid run names, and atomic writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, check_run_id, home, read_json, read_rows, write_json, write_text
from ddp_play.errors import UsageError


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "..",
        "a..b",
        ".hidden",
        "a/b",
        "two words",
        "--help",
        "-x",
        "Upper",
        "größe",
        "a\n",
        "a" * 49,
        "_x",
        "a:b",
    ],
)
def test_names_that_cannot_be_a_run(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a run name") as caught:
        check_run_id(name)
    assert "lower-case" in caught.value.hint


@pytest.mark.parametrize("name", ["a", "0", "calm-otter-123", "night_1.b", "a" * 48])
def test_names_that_can(name: str) -> None:
    assert check_run_id(name) == name
    assert RunPaths.of(name).root == home() / "runs" / name


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({"DDP_PLAY_HOME": "/data/x"}, "/data/x"),
        ({"DDP_PLAY_HOME": "~/x"}, "/home/me/x"),
        ({"XDG_STATE_HOME": "/state"}, "/state/ddp-play"),
        ({}, "/home/me/.local/state/ddp-play"),
    ],
)
def test_home(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], where: str) -> None:
    monkeypatch.delenv("DDP_PLAY_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert home() == Path(where)


def test_a_relative_home_does_not_move_with_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DDP_PLAY_HOME", "here")
    assert home() == tmp_path / "here"


@pytest.mark.parametrize(
    "value", [{}, {"a": [1, None, "größe\n"]}, {"b": {"c": 0.1}}, {"bytes": os.fsdecode(b"caf\xe9")}]
)
def test_documents_come_back(tmp_path: Path, value: dict[str, Any]) -> None:
    write_json(tmp_path / "deep" / "x.json", value)
    assert read_json(tmp_path / "deep" / "x.json") == value


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "3", "\udce9"])
def test_no_document_is_an_empty_one(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "x").write_text(text, errors="surrogateescape")
    assert read_json(tmp_path / "x") == {}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["run.json"]


def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "x", "y")
    assert (tmp_path / "new" / "x").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("below", ["runs/calm-otter-1/run.json", "facts.json"])
def test_the_state_directory_is_the_owners_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, below: str) -> None:
    """Whatever is written first; directories above it are made as the user's umask says."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "state" / "ddp-play"))
    write_json(home() / below, {})
    assert [path.stat().st_mode & 0o777 for path in (home(), home().parent)] == [0o700, 0o755]


def test_creating_twice_changes_nothing(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "r1")
    paths.create()
    write_json(paths.run, {"a": 1})
    paths.create()
    assert read_json(paths.run) == {"a": 1}
    assert paths.run_id == "r1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [('[{"a": 1}, 2]', [{"a": 1}]), ("{}", []), ("[", []), (None, []), ("[1]", []), ("[" * 200_000, [])],
)
def test_a_file_without_a_list_has_no_rows(tmp_path: Path, text: str | None, expected: list[Any]) -> None:
    path = tmp_path / "artifacts.json"
    if text is not None:
        path.write_text(text)
    assert read_rows(path) == expected
