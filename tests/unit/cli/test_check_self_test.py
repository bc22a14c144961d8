"""What `ddp-play check --self-test` refuses, prints and answers. It runs in tests/lab/test_pair_matrix.py."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ddp_play.checks.self_test.kinds import DEFECTS
from ddp_play.checks.self_test.self_test import SelfTest
from ddp_play.checks.self_test.trial import Trial
from ddp_play.cli.check_self_test import SelfTestOptions, document, show
from ddp_play.cli.main import app
from ddp_play.errors import UsageError
from tests import schemas
from tests.unit.checks.self_test.test_self_test import Hosts

CLEAN = Trial(0, "none, level quick", ("h1", "h2", "h3"), "nothing", "nothing", "clean", seconds=3.9)
FOUND = Trial(8, "mtu", ("h2",), "FAIL mtu h2", "FAIL mtu h2", "detected", seconds=4.0)
MISSED = Trial(22, "cpu quota", ("h2",), "FAIL cpu quota h2", "nothing", "MISSED", seconds=4.0)
ALARM = Trial(
    10, "blocked", ("h1",), "FAIL ports h1", "FAIL ports h1; warn mtu h3", "detected", ("warn mtu h3: 9000",), 5.0
)


def self_test(*trials: Trial) -> SelfTest:
    return SelfTest(Hosts(), [CLEAN, *trials], num_mended=len(trials))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--self-test", "-i", "h1,"], "never on hosts of an inventory"),
        (["--self-test", "train.yml"], "leave out -i and the playbook"),
        (["--lab", "mine"], "--lab and --only belong to --self-test"),
        (["--only", "mtu"], "ddp-play check --self-test"),
        (["--self-test", "--only", "no such"], "there are: cpu quota"),
    ],
)
def test_what_is_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["check", *words])
    assert done.exit_code == 64
    assert message in " ".join(done.stderr.split())


def test_defects_by_parts_of_their_names() -> None:
    assert SelfTestOptions(True).defects() == DEFECTS
    assert [row.name for row in SelfTestOptions(True, None, ["MTU", "delay"]).defects()] == [
        "mtu", "mtu black hole", "delay of 20 ms",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no defect has quota9"):
        SelfTestOptions(True, None, ["quota9"]).defects()


def test_the_table_and_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    show(self_test(FOUND, MISSED, ALARM), 61.4)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == [
        "defect where expected found seconds result",
        "none, level quick h[1-3] nothing nothing 3.9 clean",
        "mtu h2 FAIL mtu h2 FAIL mtu h2 4.0 detected",
        "cpu quota h2 FAIL cpu quota h2 nothing 4.0 MISSED",
        "blocked h1 FAIL ports h1 FAIL ports h1; warn mtu h3 5.0 detected, 1 false alarm",
    ]
    assert lines[5] == "false alarm blocked: warn mtu h3: 9000"
    assert lines[-1] == "2 of 3 defects detected, 2 of 45 kinds; 1 false alarm in 7 checks; 1 missed; 61 s"


def test_the_answer_for_programs_fits_its_schema() -> None:
    found = json.loads(json.dumps(document(self_test(FOUND, MISSED), 61.4)))
    schemas.check("check-self-test", found)
    assert (found["exit_class"], found["counts"]["missed"]) == ("check_failed", 1)
    assert found["trials"][1]["kind"] == "another MTU"
    assert document(self_test(FOUND), 1.0)["exit_class"] == "done"
