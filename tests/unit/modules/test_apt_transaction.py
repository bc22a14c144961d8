"""The order of a transaction: nothing is removed before lists, plan and downloads are good; a fake apt-get counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import apt_transaction

from tests.unit.modules.module_process import FORKER

# Writes its words to the log, then answers as the file says that is named after the step.
APT = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
  *--error-on=any*) step=source;; *update*) step=update;; *--simulate*) step=plan;;
  *--download-only*) step=download;; *) step=install;;
esac
echo "$step: $*" >> log
[ ! -e $step.out ] || cat $step.out
[ ! -e $step.err ] || cat $step.err >&2
rc=$(cat $step.rc 2>/dev/null || echo 0)
[ ! -e $step.once ] || rm -f $step.once $step.rc $step.err
exit $rc
"""


def play(folder: Path, *, check: bool = False, **arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """The module's answer, and the steps it took."""
    apt = folder / "apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    given = {**arguments, "_ansible_check_mode": check}
    answer = FORKER.answer(apt_transaction.__file__, given, path=str(folder))
    log = folder / "log"
    return answer, log.read_text().splitlines() if log.exists() else []


def steps(log: list[str]) -> list[str]:
    return [line.partition(":")[0] for line in log]


SWAP: dict[str, Any] = {
    "install": ["docker-ce"],
    "remove": ["docker.io"],
    "source": "/etc/apt/sources.list.d/docker.sources",
}
ORDER = ["source", "update", "plan", "download", "install"]


def test_everything_is_here_before_anything_is_removed(tmp_path: Path) -> None:
    (tmp_path / "plan.out").write_text("Remv docker.io [20.10]\nInst docker-ce (5:29)\n")
    answer, log = play(tmp_path, **SWAP)
    assert (answer["changed"], answer["step"], steps(log)) == (True, "done", ORDER)
    assert "Dir::Etc::sourcelist=/etc/apt/sources.list.d/docker.sources" in log[0]
    assert all(line.endswith("docker-ce docker.io-") for line in log[2:])


@pytest.mark.parametrize(("step", "reported"), [("source", "update"), ("plan", "plan"), ("download", "download")])
def test_a_step_that_fails_is_the_last(tmp_path: Path, step: str, reported: str) -> None:
    (tmp_path / f"{step}.rc").write_text("100")
    (tmp_path / f"{step}.err").write_text("Reading...\nE: Failed to fetch http://x/y  404\n")
    answer, log = play(tmp_path, **SWAP)
    assert answer["failed"]
    assert answer["step"] == reported
    assert (
        answer["msg"] == f"apt-get failed in step {reported}, nothing was removed: E: Failed to fetch http://x/y  404"
    )
    assert steps(log) == ORDER[: ORDER.index(step) + 1]


def test_lists_that_fail_are_named_when_a_package_is_missing(tmp_path: Path) -> None:
    (tmp_path / "update.err").write_text("W: Failed to fetch http://deb.example.com/x  Could not resolve\n")
    (tmp_path / "plan.rc").write_text("100")
    (tmp_path / "plan.err").write_text("E: Unable to locate package docker.io\n")
    answer, log = play(tmp_path, install=["docker.io"])
    assert steps(log) == ["update", "plan"]
    assert "Unable to locate package docker.io\nW: Failed to fetch http://deb.example.com/x" in answer["msg"]


def test_what_nobody_named_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "plan.out").write_text("Remv docker.io [20.10]\nRemv kubelet [1.31]\nPurg cri-tools:amd64 [1]\n")
    answer, log = play(tmp_path, **SWAP)
    assert "it would also remove cri-tools, kubelet, which" in answer["msg"]
    assert steps(log) == ORDER[:3]


def test_an_installation_that_fails_does_not_claim_that_nothing_happened(tmp_path: Path) -> None:
    (tmp_path / "install.rc").write_text("100")
    (tmp_path / "install.err").write_text("E: Sub-process /usr/bin/dpkg returned an error code (1)\n")
    answer, _ = play(tmp_path, **SWAP)
    assert (answer["step"], "nothing was removed" in answer["msg"]) == ("install", False)


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    for name, text in (("once", ""), ("rc", "100"), ("err", "E: Could not get lock /var/lib/dpkg/lock-frontend.")):
        (tmp_path / f"install.{name}").write_text(text)
    answer, log = play(tmp_path, **SWAP)
    assert answer["changed"]
    assert steps(log) == [*ORDER, "install"]


def test_a_lock_that_stays_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plan.rc").write_text("100")
    (tmp_path / "plan.err").write_text("E: Could not get lock /var/lib/dpkg/lock-frontend.")
    assert "Could not get lock" in play(tmp_path, **SWAP, lock_timeout_s=0)[0]["msg"]


def test_nothing_to_do_runs_nothing(tmp_path: Path) -> None:
    answer, log = play(tmp_path)
    assert (answer["changed"], answer["ddp_changes"], log) == (False, [], [])


def subjects(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["what"], row["whose"]) for row in answer["ddp_changes"]]


SWAPPED = [
    ("remove", "package docker.io", "theirs"),
    ("change", "package libc6", "theirs"),
    ("add", "package docker-ce", "new"),
]
PLAN = "Remv docker.io [20.10]\nInst libc6 [2.36] (2.37)\nInst docker-ce (5:29)\n"


def test_check_mode_only_simulates_and_answers_as_the_transaction_does(tmp_path: Path) -> None:
    (tmp_path / "plan.out").write_text(PLAN)
    answer, log = play(tmp_path, check=True, **SWAP)
    assert (answer["changed"], steps(log), subjects(answer)) == (True, ["plan"], SWAPPED)
    assert "Dir::Cache::pkgcache= " in log[0]
    assert subjects(play(tmp_path, **SWAP)[0]) == SWAPPED


def test_check_mode_names_packages_that_no_list_has_yet(tmp_path: Path) -> None:
    (tmp_path / "plan.rc").write_text("100")
    answer, _ = play(tmp_path, check=True, **{**SWAP, "install": ["docker-ce=5:29*"]})
    assert subjects(answer) == [SWAPPED[0], SWAPPED[2]]


DPKG = """#!/bin/sh
cat "$(dirname "$0")/there"
"""
PLANNED = {"packages": ["docker-ce", "iptables"], "replaced": ["docker.io"]}


@pytest.mark.parametrize(
    ("failing", "there", "recorded"),
    [
        ("", "", PLANNED),
        ("download", "", None),
        ("install", "docker.io config-files\niptables installed\ndocker-ce half-installed\n", PLANNED),
        ("install", "docker.io installed\niptables installed\n", {"packages": ["iptables"]}),
    ],
)
def test_what_is_new_is_in_the_record_of_the_role_before_it_is_installed(
    tmp_path: Path, failing: str, there: str, recorded: dict[str, list[str]] | None
) -> None:
    """What others install meanwhile is not, and neither are a package that gets another version and one that failed."""
    (tmp_path / "plan.out").write_text(
        "Remv docker.io [20.10]\nInst iptables (1.8)\nInst docker-ce (5:29)\nInst containerd.io [1] (2)\n"
    )
    (tmp_path / "there").write_text(there)
    (tmp_path / "dpkg-query").write_text(DPKG)
    (tmp_path / "dpkg-query").chmod(0o755)
    if failing:
        (tmp_path / f"{failing}.rc").write_text("100")
    record = tmp_path / "etc" / "record.json"
    play(tmp_path, **{**SWAP, "source": None}, role="docker_engine", record=str(record))
    found = json.loads(record.read_text())["docker_engine"] if record.exists() else None
    assert found == recorded
