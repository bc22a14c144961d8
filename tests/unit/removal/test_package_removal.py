"""What recorded_packages installs, removes, keeps and records on a host; in the test's own process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import recorded_packages

from tests.unit.modules.stand_in import StandIn, play
from tests.unit.removal.package_hosts import Host, manager

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("apt", [True, False])
def test_packages_whose_purge_deletes_data_are_only_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apt: bool
) -> None:
    """They need not be in the record, and one that others need is not left to a later removal, which would purge it."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"r": {"packages": ["libedit2"]}}))
    host = Host({"chrony", "libedit2", "bash"}, apt=apt, state="absent", names=["chrony"], keep_data=["chrony"])
    host.params["record"] = str(path)
    manager(monkeypatch, StandIn(), apt=apt)
    found = play(monkeypatch, recorded_packages, host)
    assert (found["packages"], found["kept"], host.there) == (["chrony", "libedit2"], [], {"bash"})
    done = [
        [word for word in argv if word in ("remove", "purge", "chrony", "libedit2")]
        for argv in host.asked
        if {"remove", "purge"} & set(argv) and "--simulate" not in argv
    ]
    assert done == ([["remove", "chrony"], ["purge", "libedit2"]] if apt else [["remove", "chrony", "libedit2"]])

    host = Host({"chrony", "tool"}, state="absent", names=["chrony"], keep_data=["chrony"], record=str(path))
    manager(monkeypatch, StandIn())
    found = play(monkeypatch, recorded_packages, host)
    assert (found["packages"], found["kept"]) == ([], ["chrony"])
    assert record_of(path) is None
