"""Commands and refusals of apt_transaction; in the test's own process."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import package_manager
from ansible_collections.ddp.play.plugins.modules import apt_transaction

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend."


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, apt_transaction) == documented(apt_transaction)


@pytest.mark.parametrize(
    ("given", "check", "changed", "num_commands"),
    [
        ({}, False, False, 0),
        ({}, True, False, 0),
        ({"install": ["a"]}, True, True, 1),
        ({"remove": ["a"]}, True, True, 1),
        ({"remove": ["a"]}, False, True, 4),
        ({"install": ["a"]}, False, True, 4),
    ],
)
def test_one_list_is_enough(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], check: bool, changed: bool, num_commands: int
) -> None:
    host = StandIn(**given)
    host.check_mode = check
    answer = play(monkeypatch, apt_transaction, host)
    expected = {"failed": False, "changed": changed, "step": "done", "ddp_changes": []}
    assert (answer, len(host.asked)) == (expected, num_commands)
    assert all("--simulate" in argv for argv in host.asked if check)


def test_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly: no wish to downgrade, no repository that must answer."""
    host = StandIn(install=["new"], remove=["old"])
    play(monkeypatch, apt_transaction, host)
    options = ["--assume-yes", "--no-install-recommends"]
    options += ["--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold"]
    install = ["apt-get", *options, "install", "--allow-change-held-packages"]
    assert host.asked == [
        ["apt-get", "update", "--quiet"],
        [*install, "--simulate", "new", "old-"],
        [*install, "--download-only", "new", "old-"],
        [*install, "new", "old-"],
    ]
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
    quiet |= {"NEEDRESTART_SUSPEND": "1", "NEEDRESTART_MODE": "l"}
    assert host.environments == [quiet] * 4
    older = StandIn(install=["new"], allow_downgrade=True)
    play(monkeypatch, apt_transaction, older)
    assert all("--allow-downgrades" in argv for argv in older.asked[1:])


def test_the_update_of_a_named_repository_is_alone_and_strict() -> None:
    plain = ["apt-get", "update", "--quiet"]
    assert apt_transaction.update_commands(None) == apt_transaction.update_commands("") == [plain]
    alone = ["--option=Dir::Etc::sourcelist=/a.sources", "--option=Dir::Etc::sourceparts=-"]
    strict = [*plain, *alone, "--option=APT::Get::List-Cleanup=0", "--error-on=any"]
    assert apt_transaction.update_commands("/a.sources") == [strict, plain]


def test_the_wait_for_a_lock_is_the_one_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(package_manager.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(package_manager.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host = StandIn(lambda argv: (100, "", LOCKED) if "install" in argv else (0, "", ""), install=["a"])
    assert play(monkeypatch, apt_transaction, host)["step"] == "plan"
    assert now == [302.0]


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

    found = play(monkeypatch, apt_transaction, StandIn(answer, install=["a"]))
    assert (found["step"], found.get("msg", "")) == (step, message)
    assert found["failed"] == bool(message)


@pytest.mark.parametrize(
    ("simulated", "refused"),
    [("Remv old [1]\n", ""), ("Remv theirs [1]\nPurg old:amd64 [1]\n", "theirs"), ("Inst theirs [1] (2)\n", "")],
)
def test_removals_of_the_plan(monkeypatch: pytest.MonkeyPatch, simulated: str, refused: str) -> None:
    """Only the plan is judged: the installation prints its removals too."""
    host = StandIn(lambda argv: (0, simulated if "--simulate" in argv else "Remv x [1]\n", ""), remove=["old"])
    answer = play(monkeypatch, apt_transaction, host)
    assert answer["failed"] == bool(refused)
    assert f"it would also remove {refused}, which" in answer["msg"] if refused else answer["changed"]


def test_the_check_refuses_what_the_transaction_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    host = StandIn(lambda _argv: (0, "Remv theirs [1]\nInst new (2)\n", ""), install=["new"])
    host.check_mode = True
    answer = play(monkeypatch, apt_transaction, host)
    assert answer["failed"]
    assert "it would also remove theirs, which was not named" in answer["msg"]
