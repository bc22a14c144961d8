"""What recorded_packages asks the package managers, and how it reads their answers; in the test's own process."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import package_manager
from ansible_collections.ddp.play.plugins.modules import recorded_packages

from tests.unit.modules.stand_in import StandIn, accepted, documented, play
from tests.unit.removal.package_hosts import ABORTED, manager

if TYPE_CHECKING:
    from pathlib import Path

LOCKED = "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)"
ENGLISH = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
# Without these, Ubuntu's needrestart restarts services of the site after each transaction.
QUIET = {"NEEDRESTART_SUSPEND": "1", "NEEDRESTART_MODE": "l"}
APT_WORDS = [
    *("apt-get", "--assume-yes", "--no-install-recommends"),
    *("--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold"),
]


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, recorded_packages) == documented(recorded_packages)


SIMULATED = """Inst libedit2 (3.1 Debian:12 [amd64])
Inst tzdata [1.0] (2.0 Debian:12 [all])
Remv systemd-timesyncd:amd64 [252]
Purg ntp [1]
Conf chrony (4.3)
"""
OF_SIMULATED: Any = (["libedit2"], ["tzdata"], [], ["ntp", "systemd-timesyncd"])


def test_what_a_simulation_adds_and_removes() -> None:
    found = package_manager.package_transactions.read_apt(SIMULATED)
    assert found == OF_SIMULATED
    assert package_manager.complaints("Hit:1\nE: a\nError: b\nW: c\nE: a\n") == "E: a\nError: b\nW: c"
    assert package_manager.complaints("Reading...\nE: one\nErr:3 http://x\n") == "E: one\nErr:3 http://x"
    assert package_manager.complaints("") == ""
    assert package_manager.complaints(" Es war nichts \n") == "Es war nichts"


@pytest.mark.parametrize(
    ("rc", "err", "tries"),
    [(0, LOCKED, 1), (0, "", 1), (100, "E: broken", 1), (1, LOCKED, 3), (100, LOCKED, 3), (-9, LOCKED, 3)],
)
def test_only_a_lock_is_tried_again(monkeypatch: pytest.MonkeyPatch, rc: int, err: str, tries: int) -> None:
    now = [50.0]
    monkeypatch.setattr(package_manager.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(package_manager.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host = StandIn(lambda _argv: (rc, "", err))
    assert manager(monkeypatch, host).run(["apt-get"]) == (rc, "", err)
    assert len(host.asked) == tries
    assert host.environments == [ENGLISH | QUIET] * tries


def test_the_wait_for_a_lock_is_the_one_of_the_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = [0.0]
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(package_manager.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(package_manager.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host = StandIn(lambda _argv: (100, "", LOCKED), role="r", names=["a"], record=str(tmp_path / "record.json"))
    answer = play(monkeypatch, recorded_packages, host)
    assert (answer["failed"], answer["packages"], answer["kept"], now) == (True, [], [], [302.0])


@pytest.mark.parametrize(("err", "out", "shown"), [("E: x\nnoise", "out", "E: x"), ("", "words", "words")])
def test_a_call_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, err: str, out: str, shown: str) -> None:
    host = StandIn(lambda _argv: (1, out, err))
    with pytest.raises(Exception, match="apt-get purge a failed: ") as caught:
        manager(monkeypatch, host).must(["apt-get", "purge", "a"])
    answer = caught.value.answer  # type: ignore[attr-defined]
    assert answer == {"msg": f"apt-get purge a failed: {shown}", "packages": [], "kept": []}


@pytest.mark.parametrize("apt", [True, False])
def test_installed_packages(monkeypatch: pytest.MonkeyPatch, apt: bool) -> None:
    out = "bash installed\nold config-files\nnone not-installed\n" if apt else "bash\nold\n"
    host = StandIn(lambda _argv: (0, out, ""))
    assert manager(monkeypatch, host, apt=apt).installed() == {"bash", "old"}
    assert host.asked[0][0] == ("dpkg-query" if apt else "rpm")


@pytest.mark.parametrize(
    ("rc", "out", "err", "replaces", "answer"),
    [
        (0, SIMULATED, "", ["ntp", "systemd-timesyncd", "absent"], OF_SIMULATED),
        (0, "Inst a (1)\n", "W: x", [], (["a"], [], [], [])),
        (0, SIMULATED, "", ["ntp"], "it would remove systemd-timesyncd, which ddp-play did not install"),
        (0, SIMULATED, "", [], "it would remove ntp, systemd-timesyncd, which ddp-play did not install"),
        (100, "", "E: Unable to locate package a\n", [], "E: Unable to locate package a\nW: of update"),
        (1, "", "E: held\n", [], "E: held\nW: of update"),
    ],
)
def test_the_plan_of_an_installation(
    monkeypatch: pytest.MonkeyPatch, rc: int, out: str, err: str, replaces: list[str], answer: Any
) -> None:
    host = StandIn(lambda argv: (1, "", "W: of update") if "update" in argv else (rc, out, err))
    calls = manager(monkeypatch, host)
    if isinstance(answer, str):
        with pytest.raises(Exception, match="nothing was installed") as caught:
            calls.plan(["a", "b"], replaces)
        found = caught.value.answer  # type: ignore[attr-defined]
        assert found == {"msg": f"a, b: nothing was installed: {answer}", "packages": [], "kept": []}
    else:
        assert calls.plan(["a", "b"], replaces) == answer
    assert host.asked == [["apt-get", "update", "--quiet"], [*APT_WORDS, "--simulate", "install", "a", "b"]]


def test_the_calls_of_both_package_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for apt in (True, False):
        host = StandIn()
        calls = manager(monkeypatch, host, apt=apt)
        calls.install(["a"], ["b"])
        calls.remove(["a"], [])
        asked += host.asked
        assert calls.needed([]) == []
    assert asked == [
        [*APT_WORDS, "install", "a"],
        [*APT_WORDS, "purge", "a"],
        ["dnf", "--assumeyes", "--quiet", "--allowerasing", "install", "a"],
        ["dnf", "--assumeyes", "--quiet", "remove", "--setopt=clean_requirements_on_remove=False", "a"],
    ]


TABLE = " chrony  x86_64  4.5  base  300 k\n\nTransaction Summary\n"


@pytest.mark.parametrize(
    ("out", "err", "replaces", "answer"),
    [
        (f"Installing:\n{TABLE}", ABORTED, [], (["chrony"], [], [], [])),
        (
            f"Removing:\n ntp  x86_64  1  @base  3 k\nInstalling:\n{TABLE}",
            ABORTED,
            ["ntp"],
            (["chrony"], [], [], ["ntp"]),
        ),
        (f"Removing:\n ntp  x86_64  1  @base  3 k\nInstalling:\n{TABLE}", ABORTED, [], "it would remove ntp, which"),
        (f"Downgrading:\n{TABLE}", ABORTED, [], "it would downgrade chrony"),
        (f"Installing:\n kernel-devel  x86_64  6  base  3 k\n{TABLE}", ABORTED, [], (["chrony"], [], [], [])),
        ("", "Error: Unable to find a match: chrony\n", [], "Error: Unable to find a match: chrony"),
    ],
)
def test_dnf_is_asked_first_too(
    monkeypatch: pytest.MonkeyPatch, out: str, err: str, replaces: list[str], answer: Any
) -> None:
    """The answer to a transaction that is declined is exit code 1, as for an error.

    The site has kernel-devel for another kernel, so that a removal of the name would take that too.
    """
    host = StandIn(lambda argv: (0, "bash\nkernel-devel\n", "") if argv[0] == "rpm" else (1, out, err))
    calls = manager(monkeypatch, host, apt=False)
    if isinstance(answer, str):
        with pytest.raises(Exception, match="nothing was installed") as caught:
            calls.plan(["chrony"], replaces)
        assert answer in caught.value.answer["msg"]  # type: ignore[attr-defined]
    else:
        assert calls.plan(["chrony"], replaces) == answer
    assert host.asked[0] == ["dnf", "--assumeno", *(["--allowerasing"] if replaces else []), "install", "chrony"]


@pytest.mark.parametrize(
    ("refused", "needed"),
    [((), []), ((("a", "b"), ("a",)), ["a"]), ((("a", "b"), ("a",), ("b",), ("b", "a")), ["a", "b"])],
)
def test_rpm_says_whether_another_package_needs_one(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[tuple[str, ...], ...], needed: list[str]
) -> None:
    """The packages that nothing else needs go, also where another one is needed."""
    host = StandIn(lambda argv: (int(tuple(argv[4:]) in {*refused, ("b", "a")} and bool(refused)), "", ""))
    assert manager(monkeypatch, host, apt=False).needed(["a", "b"]) == needed
    assert host.asked[0] == ["rpm", "--erase", "--allmatches", "--test", "a", "b"]
