"""`make test`: its parts, what it installs, and the lines at its end."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests import needs, suite

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
LAB = suite.Part("lab-tests", "a lab", 100, engine=True)
CHECK = suite.Part("check", "lint", 50)


def test_ci_runs_the_two_commands_of_the_readme_and_nothing_else() -> None:
    commands = [
        line for line in (ROOT / ".ci" / "run").read_text().splitlines() if not line.startswith(("#", "set ", "cd "))
    ]
    assert commands == ["export DDP_PLAY_REQUIRE_LAB=1", "make demo", "make test"]


@pytest.mark.parametrize("part", [part for group in suite.GROUPS for part in group], ids=lambda part: part.target)
def test_a_part_is_a_target_and_has_the_engine_it_needs(part: suite.Part) -> None:
    rule = re.search(rf"^{part.target}:(.*?)(?:##.*)?$", MAKEFILE, re.MULTILINE)
    assert rule
    assert ("engine" in rule[1].split()) is part.engine


@pytest.mark.parametrize(
    ("line", "counts", "skips", "failed"),
    [
        ("8244 passed, 3 skipped in 151.02s (0:02:31)", {"passed": 8244, "skipped": 3}, {}, []),
        ("1 failed, 2 passed, 1 warning, 2 errors in 9s", {"failed": 1, "passed": 2, "error": 2}, {}, []),
        ("=== 2 passed in 0.10s ===", {"passed": 2}, {}, []),
        ("SKIPPED [2] tests/unit/x.py:9: needs root", {}, {"needs root": 2}, []),
        ("SKIPPED [1] tests/unit/x.py: no fish: here", {}, {"no fish: here": 1}, []),
        ("FAILED tests/unit/x.py::test_x[a - b] - assert False", {}, {}, ["tests/unit/x.py::test_x[a - b]"]),
        ("FAILED tests/unit/x.py::test_x", {}, {}, ["tests/unit/x.py::test_x"]),
        ("ERROR tests/lab/x.py::test_y - OSError: no", {}, {}, ["tests/lab/x.py::test_y"]),
        ("ERROR no Docker engine", {}, {}, []),
        ("host:0: 12 passed in review", {}, {}, []),
        ("", {}, {}, []),
    ],
)
def test_a_line_of_pytest_is_counted(
    line: str, counts: dict[str, int], skips: dict[str, int], failed: list[str]
) -> None:
    tests = suite.Tests()
    tests.take(line)
    assert (dict(tests.counts), dict(tests.skips), tests.failed) == (counts, skips, failed)


def test_there_is_one_line_per_part_and_one_per_failed_test_and_reason_for_skipping() -> None:
    tests = suite.Tests(Counter(passed=1200, failed=1), Counter({"needs root": 2}), ["tests/unit/x.py::test_x"])
    results = [
        suite.Result(CHECK, 2, 12.4, tests),
        suite.Result(LAB, 0, 0.0, skip_reason="no Docker engine answers"),
    ]
    assert suite.summary(results) == [
        "check       failed      12 s  1,200 passed, 1 failed",
        "            failed     tests/unit/x.py::test_x",
        "            skipped      2    needs root",
        "lab-tests   skipped      0 s  no Docker engine answers",
    ]


def test_the_estimate_follows_the_speed_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "skip_reason", lambda _part: "")
    assert suite.estimate_s([], ((CHECK,), (LAB,))) == 150
    assert suite.estimate_s([], ((CHECK, LAB),)) == 100
    assert suite.estimate_s([suite.Result(CHECK, 0, 100.0)], ((LAB,),)) == 200
    assert suite.estimate_s([suite.Result(CHECK, 0, 100.0)], ()) == 0


def test_a_part_is_skipped_only_where_an_engine_is_missing_and_allowed_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "answers", lambda: False)
    monkeypatch.setattr(suite, "may_install", lambda: "only root could install one")
    monkeypatch.delenv("DDP_PLAY_REQUIRE_LAB", raising=False)
    assert suite.skip_reason(CHECK) == ""
    assert suite.skip_reason(LAB) == "only root could install one"
    monkeypatch.setenv("DDP_PLAY_REQUIRE_LAB", "1")
    assert suite.skip_reason(LAB) == ""


def test_a_part_runs_its_target_and_its_failure_is_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").write_text("check:\n\t@echo '3 passed in 0.1s'; exit 3\n")
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.delenv("MAKEFLAGS", raising=False)  # of `make check`, whose job server this make cannot use
    result = suite.run_part(CHECK)
    assert result.exit_code == 2
    assert result.tests.counts == Counter(passed=3)
    assert capfd.readouterr().out.splitlines()[0] == "3 passed in 0.1s"


def test_parts_of_a_group_run_at_the_same_time_and_each_is_shown_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wait = "timeout 30 sh -c 'until [ -e {} ]; do sleep 0.05; done'; sleep {}"
    wait = f"@echo a; touch $@; {wait}; echo b; echo '1 passed in 1s'"
    rules = [f"check:\n\t{wait.format('lab-tests', 0)}\n", f"lab-tests:\n\t{wait.format('check', 0.3)}\n"]
    (tmp_path / "Makefile").write_text("".join(rules))
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "skip_reason", lambda _part: "")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    results = suite.run_group((CHECK, LAB))
    assert [(result.part, result.exit_code, result.tests.counts) for result in results] == [
        (part, 0, Counter(passed=1)) for part in (CHECK, LAB)
    ]
    shown = capfd.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("==>")] == [
        f"==> {name}, which has ended" for name in ("check", "lab-tests")
    ]
    assert shown.count("a\nb\n") == 2


def test_missing_programs_are_named_by_their_packages(tmp_path: Path) -> None:
    assert needs.missing_packages(str(tmp_path)) == " ".join(needs.PROGRAMS.values()).split()
    for program in needs.PROGRAMS:
        (tmp_path / program).touch(mode=0o755)
    assert needs.missing_packages(str(tmp_path)) == []
    (tmp_path / "cc").unlink()
    assert needs.missing_packages(str(tmp_path)) == ["gcc", "libc6-dev"]


def test_programs_that_nothing_installs_are_named_with_where_they_are(tmp_path: Path) -> None:
    first, second = needs.named_by_hand(str(tmp_path))
    assert "apptainer are skipped: Debian sid" in first
    assert "enroot are skipped: with pyxis" in second
    for program in needs.BY_HAND:
        (tmp_path / program).touch(mode=0o755)
    assert needs.named_by_hand(str(tmp_path)) == []


def test_only_root_of_the_debian_family_installs(tmp_path: Path) -> None:
    marker = tmp_path / "debian_version"
    assert not needs.may_install(0, marker)
    marker.touch()
    assert needs.may_install(0, marker)
    assert not needs.may_install(1000, marker)
