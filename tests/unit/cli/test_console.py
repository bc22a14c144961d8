"""Tables as plain text, and no text of a host or rank that could control a terminal."""

from __future__ import annotations

import errno
import io
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from rich.color import ColorSystem
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.bundle.run_lookup import load
from ddp_play.cli import compare, console, live_view, logs, ps, results, top, usage
from ddp_play.cli.progress_display import progress
from ddp_play.errors import HostNotReady
from ddp_play.report.comparison import Row
from ddp_play.run.fleet_activity import host_row
from ddp_play.run.host_usage import Usage, Used
from tests.unit.cli.own_process import run_command, unread_pipe
from tests.unit.cli.run_directories import make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Clears the screen, sets the title, makes a link, rings, overprints, colours by one byte, reverses, is no text at all.
EVIL = (
    "a\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x07\rb\x9b31m\x7f\x08\x00"
    "\u202egnp.exe\u2066\u200f\udc9b\ud800\u2028[bold]c"
)
EVENTS: list[dict[str, Any]] = [
    {"type": "phase", "phase": EVIL},
    {"type": "rank", "rank": 0, "host": EVIL, "state": "exited", "ok": False, "stopped": False, "how": EVIL},
    {"type": "rank", "rank": 1, "host": EVIL, "state": EVIL, "ok": True, "stopped": True, "how": EVIL},
    {"type": "host", "host": EVIL, "state": EVIL},
    {"type": "host", "host": EVIL, "state": "lost", "why": EVIL},
    {"type": "restart", "attempt": 2, "reason": EVIL, "retired": {EVIL: EVIL}, "new": [EVIL]},
    {"type": "retired", "hosts": {EVIL: EVIL}},
    {"type": "waiting", "reason": EVIL},
    {"type": "waiting", "for_hosts": [EVIL], "at_most_s": 3},
    {"type": "stop", "now": False, "grace_s": 1.0, "reason": EVIL},
    {"type": "task", "status": "failed", "name": EVIL, "host": EVIL, "message": EVIL},
    {"type": "transport", "words": EVIL},
    {"type": "warning", "message": EVIL},
]
PLAN = {
    "hosts": [{"name": EVIL, "first_rank": 0, "num_ranks": 1}],
    "kinds": [],
    **dict.fromkeys(("backend", "fabric", "network", "init_method", "head"), EVIL),
    "world_size": 1,
    "warnings": [EVIL],
    "left_out": [[EVIL, EVIL]],
}
VERDICT = {
    **dict.fromkeys(("message", "last_frame", "error", "hint", "host"), EVIL),
    "kernel": [EVIL],
    "tail": [EVIL],
    "rank": 0,
}
DOCUMENT = {
    "status": "failed",
    "exit_code": 1,
    "verdict": VERDICT,
    "nccl": {"words": EVIL},
    "missing": [{"host": EVIL, "path": EVIL, "why": EVIL}],
    "left_behind": {EVIL: [EVIL]},
    "ranks": [{"rank": 0, "host": EVIL, "state": EVIL, "detail": EVIL, "exit_code": 1}],
}


def test_a_table_as_text() -> None:
    table = Table("collective", "gloo cpu", "mpi cpu", box=None, pad_edge=False)
    table.add_row("all_reduce avg", "[green]works[/]", "[yellow]refused*[/]")
    rows = [line.split() for line in console.as_text(table).splitlines()]
    assert rows == [["collective", "gloo", "cpu", "mpi", "cpu"], ["all_reduce", "avg", "works", "refused*"]]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A bundle in which every text of a host is hostile."""
    made = RunPaths(tmp_path / "night")
    made.create()
    for path, document in ((made.plan, PLAN), (made.run, DOCUMENT)):
        path.write_text(json.dumps(document))
    (made.root / "artifacts.json").write_text(json.dumps([{"host": EVIL, "path": EVIL, "size": 1}]))
    made.log(0).write_bytes(EVIL.encode("utf-8", "surrogatepass") + b"\n")
    return made


def show_events(paths: RunPaths) -> None:
    view = live_view.View(paths, "all")
    view._load_plan()
    paths.events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    view.refresh(last=True)


def show_status(paths: RunPaths) -> None:
    view = live_view.View(paths, "all")
    view.phase = EVIL
    console.err.print(view._status())
    with Live(Text(EVIL), console=console.err):
        pass


def show_progress(_paths: RunPaths) -> None:
    with progress(EVIL) as going:
        going.step(EVIL)
        going.detail(EVIL)


def show_logs(paths: RunPaths) -> None:
    logs._print(paths, {0: EVIL}, matches=lambda _: True, since="", follow=False)


def show_top(_paths: RunPaths) -> None:
    run = {"run": EVIL, "owner": EVIL, "unreadable": EVIL, "ranks": {}, "slots": [EVIL], "phase": EVIL, "age_s": 1.0}
    run |= {"token": "", "attempt": 1, "user": EVIL, "memory": 1}
    hosts = {EVIL: host_row({"runs": [run]}, slots=1), "h2": host_row({}, slots=1, problem=EVIL, hint=EVIL)}
    top._print(hosts)


def show_usage(_paths: RunPaths) -> None:
    used = Used(EVIL, EVIL, EVIL, 1, 3600.0)
    usage._show(Usage(3600.0, (used,), {EVIL: 1}, 3600.0, {EVIL: EVIL}), "user")


def show_comparison(_paths: RunPaths) -> None:
    compare._show((EVIL, EVIL), [Row(EVIL, EVIL, (EVIL, {EVIL: [EVIL]}), differs=True)], everything=True)


PRINTERS: dict[str, Callable[[RunPaths], object]] = {
    "events": show_events,
    "status": show_status,
    "progress": show_progress,
    "summary": lambda paths: live_view.show_end(load(paths)),
    "results": lambda paths: results._show(paths, load(paths).document),
    "ps": lambda paths: ps._show_runs((load(paths),)),
    "logs": show_logs,
    "top": show_top,
    "usage": show_usage,
    "comparison": show_comparison,
    "line": lambda _paths: console.line(EVIL),
    "note": lambda _paths: console.note(EVIL),
    "error": lambda _paths: console.error(HostNotReady(EVIL).message, hint=EVIL),
    "a table in a file": lambda _paths: console.out.print(console.as_text(Text(EVIL))),
    "json": lambda _paths: console.as_json({EVIL: [EVIL]}),
}


@pytest.mark.parametrize("printer", PRINTERS.values(), ids=PRINTERS)
def test_no_text_controls_the_terminal(
    paths: RunPaths, capsys: pytest.CaptureFixture[str], printer: Callable[[RunPaths], object]
) -> None:
    printer(paths)
    printed = "".join(capsys.readouterr())
    assert "link" in printed
    assert [char for char in printed if not char.isprintable() and char != "\n"] == []


def test_colours_of_our_own_stay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console.out, "_color_system", ColorSystem.STANDARD)
    monkeypatch.setattr(console.out, "_force_terminal", True)
    console.line("tab\there, ümlaut, 漢字, no\u00a0break\n" + EVIL[:6], style="bold red")
    assert capsys.readouterr().out == (
        "\x1b[1;31mtab     here, ümlaut, 漢字, no\u00a0break\x1b[0m\n\x1b[1;31ma\N{REPLACEMENT CHARACTER}[2J"
        "\N{REPLACEMENT CHARACTER}\x1b[0m\n"
    )


def test_json_is_read_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    console.as_json({"message": EVIL, "größe": "漢字"})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"message": EVIL, "größe": "漢字"}
    assert "größe" in printed


def test_an_event_of_no_text_is_written(tmp_path: Path) -> None:
    """A lone surrogate, which JSON can hold and UTF-8 cannot, ended the supervisor."""
    Journal(tmp_path / "events.jsonl").emit("warning", message="\ud800")
    assert json.loads((tmp_path / "events.jsonl").read_bytes())["message"] == "\ud800"
    write_json(tmp_path / "run.json", {"message": "\ud800 \udc80"})
    assert json.loads((tmp_path / "run.json").read_text()) == {"message": "\ud800 \udc80"}


def test_with_json_text_makes_room_for_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    with console.answering(as_json=True):
        console.line("a line of rank 0")
        console.as_json({"status": "succeeded"})
    console.line("a result")
    captured = capsys.readouterr()
    assert captured.out == '{\n  "status": "succeeded"\n}\na result\n'
    assert captured.err == "a line of rank 0\n"


def test_a_long_table_aligns_wide_characters_and_shows_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("\u540d\u524d", "failed", "because \x1b[2J"), ("abcdef", "ok", "")]
    console.long_table(("run", "status", "why"), rows, styled=1, styles=["red", "green"])
    assert capsys.readouterr().out.splitlines() == [
        "run     status  why",
        "\u540d\u524d    failed  because \ufffd[2J",
        "abcdef  ok      ",
    ]


def test_a_plain_line_is_harmless_and_has_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.plain_line("[bold]a[/] :smile:\tb\x1b[2J")
    assert capsys.readouterr().out == "[bold]a[/] :smile:      b\N{REPLACEMENT CHARACTER}[2J\n"


def test_a_standard_error_that_takes_nothing_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(console, "drop", dropped.append)

    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    console.ErrorConsole(file=Full()).print("lost")
    assert dropped == [console.STDERR]


@pytest.mark.parametrize("as_json", [False, True])
def test_results_whose_reader_has_ended_end_no_command(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """With --json their text goes to standard error, and the document on standard output stays."""
    dropped: list[int] = []
    monkeypatch.setattr(console, "drop", dropped.append)
    with unread_pipe() as pipe, os.fdopen(os.dup(pipe), "w") as file:
        monkeypatch.setattr(console, "out", console.ResultConsole(file=file, soft_wrap=True))
        with console.answering(as_json=as_json):
            console.line("lost")
            console.line("lost", style="bold")
            console.out.print("lost")
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
    assert dropped == [console.STDERR if as_json else console.STDOUT] * 3


def test_what_is_dropped_goes_nowhere(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        console.drop(file.fileno())
        file.write("lost")
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
def test_characters_that_an_encoding_lacks_are_escaped(encoding: str) -> None:
    """One block character of a rank ended the view of its run with 70."""
    paths = make_run("night", logs=(b"", "\u2588 50 % \u00e9".encode()), job="\u540d\u524d \u00e9", bundle_bytes=0)
    done = run_command("logs", "night", encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    last = b"\xe9" if encoding == "latin-1" else b"\\xe9"
    assert done.stdout == b"h2:1: \\u2588 50 % " + last + b"\n"
    listed = run_command("ps", "--all", "--json", encoding=encoding)
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert json.loads(listed.stdout)["runs"][0]["job"] == "\u540d\u524d \u00e9"
    assert run_command("logs", "night", "--raw", "--rank", "1", encoding=encoding).stdout == paths.log(1).read_bytes()
