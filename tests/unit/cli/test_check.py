"""Findings of `ddp-play check` as it prints them, and its answer for programs."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.own_records import OwnRecords
from ddp_play.checks.record_findings import ComparedFigure, ComparedHost
from ddp_play.cli import console
from ddp_play.cli.check import document, show
from ddp_play.cli.main import app
from tests import schemas
from tests.unit.checks.matrices import matrix
from tests.unit.checks.test_torch_findings import WELL, answer, cpu

BLOCKED = Finding(
    "ports", Status.FAIL, "timeout on 12 tested ports from 29500 to 29999", "ranks connect on these ports",
    "allow the cluster's subnets in the firewalls", ("h1", "h2"), directions=(("h2", "h1"),),
    limit="all tested ports connect", source="a connection", look="nft list ruleset",
)  # fmt: skip
FINDINGS = (
    Finding("cpu", Status.OK, "128 of 128 CPUs", where=("h1", "h2", "h3")),
    Finding("mtu", Status.WARN, "1400", "why", "do", ("h3",), limit="1500", source="most", others="1500 on h1"),
    Finding("kernel log", Status.UNCHECKED, "this host is a container", where=("h1",)),
    Finding("shared disk", Status.UNCHECKED, "no answer within 8 s", where=("h2",), broken=True),
    BLOCKED,
)


def printed(capsys: pytest.CaptureFixture[str], *, everything: bool = False) -> list[str]:
    show(FINDINGS, num_hosts=3, took_s=4.25, everything=everything)
    return capsys.readouterr().out.splitlines()


def test_the_worst_is_first_with_direction_limit_reason_and_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == [
        "FAIL     ports                 h[1-2]: timeout on 12 tested ports from 29500 to 29999",
        "         h2 -> h1",
        "         limit: all tested ports connect (a connection)",
        "         ranks connect on these ports",
        "         look: nft list ruleset",
        "         -> allow the cluster's subnets in the firewalls",
        "NOT RUN  shared disk           h2: no answer within 8 s",
        "warn     mtu                   h3: 1400",
        "         others: 1500 on h1 (most)",
        "         why",
        "         -> do",
        "3 hosts, 4.2 s: 1 FAIL, 2 NOT RUN, 1 warn, 1 pass (1 of NOT RUN cannot be read there; --all shows it)",
    ]


def test_all_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, everything=True)
    assert "NOT RUN  kernel log            h1: this host is a container" in lines
    assert "pass     cpu                   h[1-3]: 128 of 128 CPUs" in lines
    assert lines[-1] == "3 hosts, 4.2 s: 1 FAIL, 2 NOT RUN, 1 warn, 1 pass"


def test_a_narrow_terminal_breaks_texts_and_no_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = console.SafeConsole(width=60, force_terminal=True, no_color=True, soft_wrap=True, highlight=False)
    monkeypatch.setattr(console, "out", narrow)
    lines = printed(capsys)
    assert "         look: nft list ruleset" in lines
    lines = [re.sub("\x1b[^m]*m", "", line) for line in lines]
    assert [line for line in lines if len(line) > 60 and "->" not in line] == []


def test_the_answer_for_programs_fits_its_schema() -> None:
    figure = ComparedFigure("rate: h2", "Mb/s", 940.0, 410.0, 799.0, "ddp-play", worse=True)
    compared = (ComparedHost("h1", "compared", "2030-01-01T00:00:00Z", figures=(figure,)), ComparedHost("h2", "none"))
    records = OwnRecords(compared, (), ("h1",), (("h3", "failed: ports"),))
    checked = Fleet(tuple(CheckedHost(name) for name in ("h1", "h2", "h3")), matrix=matrix("h1", "h2", "h3"), torch={
        **WELL, "hosts": {"h1": [answer(cpu())]}})  # fmt: skip
    found = json.loads(json.dumps(document(FINDINGS, "full", checked, records)))
    schemas.check("check", found)
    assert found["exit_class"] == "check_failed"
    assert found["records"]["refused"] == {"h3": "failed: ports"}
    assert [row["result"] for row in found["findings"]] == ["pass", "warn", "not run", "not run", "fail"]
    assert [row["broken"] for row in found["findings"]] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "-i", "h1,", "--level", "soak"], "the levels are: quick, full, burn-in"),
        (["check", "-i", "h1,", "--within", "2s"], "give 5s or more"),
        (["check", "-i", "h1,", "--html", "/nowhere/x.html"], "mkdir -p /nowhere"),
    ],
)
def test_what_is_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 64
    assert message in done.stderr
