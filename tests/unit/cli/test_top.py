"""`ddp-play top` without a terminal: one table, or JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from ddp_play.cli import top
from ddp_play.cli.main import app
from ddp_play.run.fleet_activity import host_row
from tests.schemas import check
from tests.unit.cli.screen.test_fleet_page import fleet


def called(monkeypatch: pytest.MonkeyPatch, hosts: dict[str, dict[str, Any]], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `top` for these answers."""
    monkeypatch.setattr(top, "ask_once", lambda *_: {"hosts": hosts})
    result = CliRunner().invoke(app, ["top", "-i", "h1,", *words])
    return result.exit_code, result.stdout, result.stderr


def test_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = called(monkeypatch, fleet())
    assert code == 69, "one of them gave no answer"
    lines = out.splitlines()
    assert lines[0] == "4 hosts  6 of 9 slots held  2 runs  gpu 64%  1 without an answer"
    assert any("night" in line and "kim" in line and "2 running" in line for line in lines)
    assert any("ranks: private to pat" in line for line in lines)
    assert "gpu3: no route to host" in err
    assert "ssh gpu3" in err


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = called(monkeypatch, fleet(), "--json")
    assert code == 69
    document = json.loads(out)
    check("top", document)
    assert document["hosts"]["gpu1"]["runs"][0]["owner"] == "kim"


def test_no_host_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = called(monkeypatch, {"h1": host_row({}, slots=None, problem="no route to host")}, "--once")
    assert code == 69
    assert "h1: no route to host" in err


def test_ctrl_c_ends_it_as_q_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "no_screen", lambda: "")
    monkeypatch.setattr(top, "LiveActivity", interrupted)
    result = CliRunner().invoke(app, ["top", "-i", "h1,"])
    assert (result.exit_code, result.stderr) == (0, "")
