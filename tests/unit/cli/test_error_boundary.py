"""Exit codes and messages of errors that reach the boundary of a verb."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import home
from ddp_play.cli import console
from ddp_play.cli import error_boundary as boundary
from ddp_play.cli.error_boundary import error_boundary, set_request
from ddp_play.errors import Busy, CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError


def exit_code(error: BaseException) -> int:
    with pytest.raises(typer.Exit) as found, error_boundary():
        raise error
    return found.value.exit_code


def test_no_error_passes() -> None:
    with error_boundary():
        pass


@pytest.mark.parametrize("cls", [UsageError, HostNotReady, CheckFailed, Busy, Interrupted])
def test_an_expected_error_exits_with_the_code_of_its_class(
    cls: type[DdpPlayError], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(cls("h1: [no disk]", hint="df -h")) == cls.exit_code
    assert capsys.readouterr().err.splitlines() == ["error: h1: [no disk]", "  -> df -h"]


def test_a_standard_output_that_is_full(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(console, "drop", dropped.append)
    monkeypatch.setattr(boundary, "disk_usage", lambda _place: SimpleNamespace(free=1 << 30))
    assert exit_code(OSError(errno.ENOSPC, "No space left on device")) == 70
    assert "standard output takes no more" in capsys.readouterr().err
    assert dropped == [console.STDOUT]


def test_a_full_disk_is_not_a_failure_of_ddp_play(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write has no file name; one of `open` has."""
    monkeypatch.setattr(boundary, "disk_usage", lambda _place: SimpleNamespace(free=0))
    home().mkdir(exist_ok=True)
    assert exit_code(OSError(errno.ENOSPC, "No space left on device")) == 70
    said, hint = capsys.readouterr().err.splitlines()
    assert re.match(r"error: this machine has no space left for /\S+: No space left on device$", said)
    assert "free some space: df -h /" in hint
    assert exit_code(OSError(errno.EDQUOT, "Disk quota exceeded", "/data/it's")) == 70
    said, hint = capsys.readouterr().err.splitlines()
    assert said == "error: this machine has no space left for /data/it's: Disk quota exceeded"
    assert hint == """  -> free some space: df -h '/data/it'"'"'s'"""


def test_a_remedy_names_the_inventory_of_its_own_verb_only(capsys: pytest.CaptureFixture[str]) -> None:
    def ask() -> None:
        set_request(PlaybookRequest("/x.yml", ("/inv",), "/"))
        raise UsageError("first", hint="ddp-play gc -i INVENTORY")

    with pytest.raises(typer.Exit), error_boundary():
        ask()
    exit_code(UsageError("second", hint="ddp-play gc -i INVENTORY"))
    hints = [line.strip() for line in capsys.readouterr().err.splitlines() if "->" in line]
    assert hints == ["-> ddp-play gc -i /inv", "-> ddp-play gc -i INVENTORY"]


def test_with_json_the_error_is_the_document_unless_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with console.answering(as_json=True):
        exit_code(HostNotReady("h1: silent", hint="ssh h1", hosts=("h1",)))
        first = capsys.readouterr()
        exit_code(HostNotReady("h1: silent"))
    found = {
        "exit_class": "host_not_ready",
        "exit_code": 69,
        "message": "h1: silent",
        "hint": "ssh h1",
        "hosts": ["h1"],
    }
    assert (json.loads(first.out), first.err.splitlines()) == (found, ["error: h1: silent", "  -> ssh h1"])
    assert capsys.readouterr().out == ""
    exit_code(HostNotReady("h1: silent"))
    assert capsys.readouterr().out == ""


def test_interrupts_and_closed_pipes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(console, "drop", dropped.append)
    assert exit_code(KeyboardInterrupt()) == 130
    assert "interrupted" in capsys.readouterr().err
    assert exit_code(BrokenPipeError()) == 0
    assert dropped == [console.STDOUT]
    assert exit_code(typer.Exit(7)) == 7


def test_any_other_exception_exits_with_70_and_names_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code(ZeroDivisionError("a bug")) == 70
    err = capsys.readouterr().err
    assert "ddp-play itself failed: a bug" in err
    log = re.search(r"\S+\.log", err)
    assert log is not None
    assert "ZeroDivisionError: a bug" in Path(log[0]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "below_home", "code"),
    [
        (NotADirectoryError(20, "Not a directory"), True, 64),
        (PermissionError(13, "Permission denied"), True, 64),
        (FileNotFoundError(2, "No such file or directory"), True, 70),  # a fault of ours, or removed meanwhile
        (PermissionError(13, "Permission denied"), False, 70),
    ],
)
def test_a_state_directory_that_cannot_be_used_is_told_from_faults_of_ours(
    error: OSError, below_home: bool, code: int
) -> None:
    error.filename = str(home() / "runs" / "x") if below_home else "/elsewhere/x"
    assert exit_code(error) == code
