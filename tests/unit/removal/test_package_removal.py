"""What recorded_packages asks the package managers, removes, keeps and records; in the test's own process."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import recorded_packages

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path

LOCKED = "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend)"
ENGLISH = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
APT_WORDS = [
    *("apt-get", "--assume-yes", "--no-install-recommends"),
    *("--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold"),
]


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, recorded_packages) == documented(recorded_packages)


def manager(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn, *, apt: bool = True) -> Any:
    """The calls of a package manager; packages need what `stand_in` answers."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if apt else None)
    stand_in.params.setdefault("lock_timeout_s", 3)
    module: Any = stand_in
    return recorded_packages.Manager(module)


SIMULATED = """Inst libedit2 (3.1 Debian:12 [amd64])
Inst tzdata [1.0] (2.0 Debian:12 [all])
Remv systemd-timesyncd:amd64 [252]
Purg ntp [1]
Conf chrony (4.3)
"""
OF_SIMULATED: Any = (["libedit2"], ["tzdata"], [], ["ntp", "systemd-timesyncd"])


def test_what_a_simulation_adds_and_removes() -> None:
    found = recorded_packages.package_transactions.read_apt(SIMULATED)
    assert found == OF_SIMULATED
    assert recorded_packages.complaints("Hit:1\nE: a\nError: b\nW: c\nE: a\n") == "E: a\nError: b\nW: c"
    assert recorded_packages.complaints(" Es war nichts \n") == "Es war nichts"


@pytest.mark.parametrize(
    ("rc", "err", "tries"), [(0, LOCKED, 1), (100, "E: broken", 1), (1, LOCKED, 3), (-9, LOCKED, 3)]
)
def test_only_a_lock_is_tried_again(monkeypatch: pytest.MonkeyPatch, rc: int, err: str, tries: int) -> None:
    now = [50.0]
    monkeypatch.setattr(recorded_packages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(recorded_packages.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    host = StandIn(lambda _argv: (rc, "", err))
    assert manager(monkeypatch, host).run(["apt-get"]) == (rc, "", err)
    assert len(host.asked) == tries
    assert host.environments == [ENGLISH] * tries


def test_the_wait_for_a_lock_is_the_one_of_the_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = [0.0]
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(recorded_packages.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(recorded_packages.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
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
        calls.remove(["a"])
        asked += host.asked
        assert calls.needed([]) == []
    assert asked == [
        [*APT_WORDS, "install", "a"],
        [*APT_WORDS, "purge", "a"],
        ["dnf", "--assumeyes", "--quiet", "--allowerasing", "install", "a"],
        ["dnf", "--assumeyes", "--quiet", "remove", "--setopt=clean_requirements_on_remove=False", "a"],
    ]


ABORTED = "Error: Operation aborted.\n"
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
        ("", "Error: Unable to find a match: chrony\n", [], "Error: Unable to find a match: chrony"),
    ],
)
def test_dnf_is_asked_first_too(
    monkeypatch: pytest.MonkeyPatch, out: str, err: str, replaces: list[str], answer: Any
) -> None:
    """The answer to a transaction that is declined is exit code 1, as for an error."""
    host = StandIn(lambda _argv: (1, out, err))
    calls = manager(monkeypatch, host, apt=False)
    if isinstance(answer, str):
        with pytest.raises(Exception, match="nothing was installed") as caught:
            calls.plan(["chrony"], replaces)
        assert answer in caught.value.answer["msg"]  # type: ignore[attr-defined]
    else:
        assert calls.plan(["chrony"], replaces) == answer
    assert host.asked == [["dnf", "--assumeno", *(["--allowerasing"] if replaces else []), "install", "chrony"]]


@pytest.mark.parametrize(("rc", "needed"), [(0, []), (1, ["a", "b"])])
def test_rpm_says_whether_another_package_needs_one(
    monkeypatch: pytest.MonkeyPatch, rc: int, needed: list[str]
) -> None:
    host = StandIn(lambda _argv: (rc, "", ""))
    assert manager(monkeypatch, host, apt=False).needed(["a", "b"]) == needed
    assert host.asked == [["rpm", "--erase", "--test", "a", "b"]]


NEEDS = {"chrony": {"libedit2"}, "theirs": {"libedit2"}, "tool": {"chrony"}}


class Host(StandIn):
    """A host with packages, of which some need others."""

    def __init__(self, there: set[str], *, apt: bool = True, **params: Any) -> None:
        super().__init__(self.manage, role="r", **params)
        self.there = there
        self.apt = apt

    def manage(self, argv: list[str]) -> tuple[int, str, str]:
        names = [word for word in argv if word in {*NEEDS, "libedit2", "old", "bash"}]
        if argv[0] == "dpkg-query":
            return 0, "".join(f"{name} installed\n" for name in sorted(self.there)), ""
        if argv[0] == "rpm":
            return (0, "\n".join(self.there), "") if "--query" in argv else (0, "", "")
        if "--simulate" in argv and "purge" in argv:
            going = {*names, *(name for name in self.there if NEEDS.get(name, set()) & set(names))}
            return 0, "".join(f"Purg {name} [1]\n" for name in going), ""
        if "--simulate" in argv:
            return 0, "Inst chrony (4)\nInst libedit2 (3)\n", ""
        if "--assumeno" in argv:
            return (
                1,
                "Installing:\n chrony  4\nInstalling dependencies:\n libedit2  3\n\nTransaction Summary\n",
                ABORTED,
            )
        if "install" in argv:
            self.there |= {*names, *(["libedit2"] if "chrony" in names else [])}
        elif "purge" in argv or "remove" in argv:
            self.there -= set(names)
        return 0, "", ""


def record_of(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


@pytest.mark.parametrize(
    ("there", "record", "answer", "left", "after"),
    [
        ({"bash"}, {}, (False, [], []), {"bash"}, None),
        ({"bash"}, {"r": {"n": 1}}, (False, [], []), {"bash"}, {"r": {"n": 1}}),
        ({"bash"}, {"r": {"packages": ["chrony"]}}, (False, [], []), {"bash"}, None),
        ({"chrony", "bash"}, {"r": {"packages": ["chrony"]}}, (True, ["chrony"], []), {"bash"}, None),
        (
            {"chrony", "libedit2", "theirs"},
            {"r": {"packages": ["chrony", "libedit2"], "n": 1}, "s": {"packages": ["x"]}},
            (True, ["chrony"], ["libedit2"]),
            {"libedit2", "theirs"},
            {"r": {"n": 1}, "s": {"packages": ["x"]}, "left": {"packages": ["libedit2"]}},
        ),
        (
            {"chrony", "libedit2", "tool", "theirs"},
            {"r": {"packages": ["chrony", "libedit2"]}},
            (False, [], ["chrony", "libedit2"]),
            {"chrony", "libedit2", "tool", "theirs"},
            {"left": {"packages": ["chrony", "libedit2"]}},
        ),
        (
            {"libedit2"},
            {"left": {"packages": ["libedit2"]}},
            (True, ["libedit2"], []),
            set(),
            None,
        ),
        (
            {"chrony"},
            {"r": {"packages": ["chrony"], "replaced": ["old"]}},
            (True, ["chrony"], []),
            {"old"},
            None,
        ),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_what_a_removal_takes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: set[str],
    record: dict[str, Any],
    answer: tuple[bool, list[str], list[str]],
    left: set[str],
    after: Any,
    check: bool,
) -> None:
    path = tmp_path / "etc" / "record.json"
    path.parent.mkdir()
    if record:
        path.write_text(json.dumps(record))
    host = Host(set(there), state="absent", record=str(path))
    host.check_mode = check
    manager(monkeypatch, StandIn())
    found = play(monkeypatch, recorded_packages, host)
    assert (found["changed"], found["packages"], found["kept"]) == answer
    assert host.there == (there if check else left)
    assert record_of(path) == (record or None if check else after)
    if not record:
        assert host.asked == []


@pytest.mark.parametrize("apt", [True, False])
def test_an_installation_is_recorded_with_what_it_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apt: bool
) -> None:
    path = tmp_path / "etc" / "record.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"r": {"packages": ["a"], "n": 1}, "s": {"n": 2}}))
    manager(monkeypatch, StandIn(), apt=apt)
    host = Host({"bash"}, apt=apt, names=["chrony"], record=str(path))
    answer = play(monkeypatch, recorded_packages, host)
    rows = [{"kind": "add", "what": f"package {name}", "whose": "new"} for name in ("chrony", "libedit2")]
    expected = {"failed": False, "changed": True, "packages": ["chrony", "libedit2"], "kept": [], "ddp_changes": rows}
    assert answer == expected
    assert record_of(path) == {"r": {"packages": ["a", "chrony", "libedit2"], "n": 1}, "s": {"n": 2}}


@pytest.mark.parametrize(("names", "check", "changed"), [([], False, False), ([], True, False), (["a"], True, True)])
def test_nothing_to_install_and_check_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], check: bool, changed: bool
) -> None:
    host = Host(set(), names=names, record=str(tmp_path / "record.json"))
    host.check_mode = check
    answer = play(monkeypatch, recorded_packages, host)
    assert (answer["changed"], answer["packages"], answer["kept"], len(host.asked)) == (changed, names, [], len(names))
    assert all("--simulate" in argv for argv in host.asked)
    assert not (tmp_path / "record.json").exists()


def test_a_replaced_package_comes_back_when_the_last_package_that_replaced_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another package needs the new one when its role is removed, and no longer when the next role is."""
    path = tmp_path / "etc" / "record.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"r": {"packages": ["chrony"], "replaced": ["old"]}}))
    manager(monkeypatch, StandIn())
    host = Host({"chrony", "tool"}, state="absent", record=str(path))
    assert play(monkeypatch, recorded_packages, host)["kept"] == ["chrony"]
    assert host.there == {"chrony", "tool"}
    assert record_of(path) == {"left": {"packages": ["chrony"], "replaced": ["old"]}}
    later = Host({"chrony"}, state="absent", record=str(path))
    assert play(monkeypatch, recorded_packages, later)["packages"] == ["chrony"]
    assert (later.there, record_of(path)) == ({"old"}, None)
