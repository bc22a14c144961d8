"""The order of a transaction: nothing is removed before lists, plan and downloads are good; a fake apt-get counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import apt_transaction

from tests.unit.modules.stand_in import StandIn, accepted, documented
from tests.unit.modules.stand_in import play as play_here

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
    done = subprocess.run(
        [sys.executable, str(apt_transaction.__file__)],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check}}),
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    log = folder / "log"
    return json.loads(done.stdout), log.read_text().splitlines() if log.exists() else []


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


def test_nothing_to_do_and_check_mode_run_nothing(tmp_path: Path) -> None:
    answer, log = play(tmp_path)
    assert (answer["changed"], log) == (False, [])
    answer, log = play(tmp_path, check=True, **SWAP)
    assert (answer["changed"], log) == (True, [])


LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend."


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, apt_transaction) == documented(apt_transaction)


@pytest.mark.parametrize(
    ("given", "check", "changed", "num_commands"),
    [
        ({}, False, False, 0),
        ({}, True, False, 0),
        ({"install": ["a"]}, True, True, 0),
        ({"remove": ["a"]}, True, True, 0),
        ({"remove": ["a"]}, False, True, 4),
        ({"install": ["a"]}, False, True, 4),
    ],
)
def test_one_list_is_enough(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], check: bool, changed: bool, num_commands: int
) -> None:
    host = StandIn(**given)
    host.check_mode = check
    answer = play_here(monkeypatch, apt_transaction, host)
    assert (answer, len(host.asked)) == ({"failed": False, "changed": changed, "step": "done"}, num_commands)


def test_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly: no wish to downgrade, no repository that must answer."""
    host = StandIn(install=["new"], remove=["old"])
    play_here(monkeypatch, apt_transaction, host)
    options = ["--assume-yes", "--no-install-recommends", "--allow-change-held-packages"]
    options += ["--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold"]
    install = ["apt-get", "install", *options]
    assert host.asked == [
        ["apt-get", "update", "--quiet"],
        [*install, "--simulate", "new", "old-"],
        [*install, "--download-only", "new", "old-"],
        [*install, "new", "old-"],
    ]
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
    assert host.environments == [quiet] * 4
    older = StandIn(install=["new"], allow_downgrade=True)
    play_here(monkeypatch, apt_transaction, older)
    assert all("--allow-downgrades" in argv for argv in older.asked[1:])


def test_the_update_of_a_named_repository_is_alone_and_strict() -> None:
    plain = ["apt-get", "update", "--quiet"]
    assert apt_transaction.update_commands(None) == apt_transaction.update_commands("") == [plain]
    alone = ["--option=Dir::Etc::sourcelist=/a.sources", "--option=Dir::Etc::sourceparts=-"]
    strict = [*plain, *alone, "--option=APT::Get::List-Cleanup=0", "--error-on=any"]
    assert apt_transaction.update_commands("/a.sources") == [strict, plain]


@pytest.mark.parametrize(
    ("rc", "err", "tries"),
    [(0, LOCKED, 1), (0, "", 1), (100, "E: broken", 1), (1, LOCKED, 3), (100, LOCKED, 3), (-9, LOCKED, 3)],
)
def test_only_a_lock_is_tried_again_and_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch, rc: int, err: str, tries: int
) -> None:
    now = [100.0]
    monkeypatch.setattr(apt_transaction.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(apt_transaction.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host: Any = StandIn(lambda _argv: (rc, "out", err))
    assert apt_transaction.run(host, ["apt-get"], 103.0) == (rc, "out", err)
    assert len(host.asked) == tries


def test_the_wait_for_a_lock_is_the_one_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(apt_transaction.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(apt_transaction.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host = StandIn(lambda argv: (100, "", LOCKED) if "install" in argv else (0, "", ""), install=["a"])
    assert play_here(monkeypatch, apt_transaction, host)["step"] == "plan"
    assert now == [302.0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Reading...\nE: one\nW: two\nE: one\nErr:3 http://x\n", "E: one\nW: two\nErr:3 http://x"),
        (" plain words \n", "plain words"),
        ("", ""),
    ],
)
def test_what_apt_complains_about(text: str, shown: str) -> None:
    assert apt_transaction.complaints(text) == shown


@pytest.mark.parametrize(
    ("failing", "step", "message"),
    [
        ("update", "done", ""),
        ("--simulate", "plan", "apt-get failed in step plan, nothing was removed: E: no\nW: of update"),
        ("--download-only", "download", "apt-get failed in step download, nothing was removed: E: no\nW: of update"),
        ("last", "install", "apt-get failed while it installed: E: no"),
    ],
)
def test_each_step_that_fails(monkeypatch: pytest.MonkeyPatch, failing: str, step: str, message: str) -> None:
    """An update of all lists may fail: a package that is missing shows it."""

    def answer(argv: list[str]) -> tuple[int, str, str]:
        here = next((word for word in ("update", "--simulate", "--download-only") if word in argv), "last")
        return (100 if here == failing else 0), "", "W: of update" if here == "update" else "E: no"

    found = play_here(monkeypatch, apt_transaction, StandIn(answer, install=["a"]))
    assert (found["step"], found.get("msg", "")) == (step, message)
    assert found["failed"] == bool(message)


@pytest.mark.parametrize(
    ("simulated", "refused"),
    [("Remv old [1]\n", ""), ("Remv theirs [1]\nPurg old:amd64 [1]\n", "theirs"), ("Inst theirs [1] (2)\n", "")],
)
def test_removals_of_the_plan(monkeypatch: pytest.MonkeyPatch, simulated: str, refused: str) -> None:
    """Only the plan is judged: the installation prints its removals too."""
    host = StandIn(lambda argv: (0, simulated if "--simulate" in argv else "Remv x [1]\n", ""), remove=["old"])
    answer = play_here(monkeypatch, apt_transaction, host)
    assert answer["failed"] == bool(refused)
    assert f"it would also remove {refused}, which" in answer["msg"] if refused else answer["changed"]
