"""What host_record records and restores of units and kernel settings; in the test's own process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_record

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, host_record) == documented(host_record)


def unit(enabled: str = "enabled", active: str = "active", load: str = "loaded") -> dict[str, str]:
    return {"load": load, "enabled": enabled, "active": active}


@pytest.mark.parametrize(
    ("was", "found", "steps"),
    [
        (unit(), unit(), []),
        (unit("disabled", "inactive"), unit(), ["disable", "stop"]),
        (unit(), unit("disabled", "inactive"), ["enable", "start"]),
        (unit(), unit("disabled", "failed"), ["enable", "start"]),
        (unit("disabled", "failed"), unit("disabled"), ["stop"]),
        (unit("disabled", "inactive"), unit("disabled", "failed"), []),
        (unit("enabled", "inactive"), unit("enabled", "active"), ["stop"]),
        (unit("masked"), unit("enabled"), []),
        (unit("static"), unit("static", "inactive"), ["start"]),
        (unit("enabled"), unit("masked"), []),
        (unit("disabled"), unit("static"), []),
        (unit("disabled", "inactive"), unit(load="not-found"), []),
        (unit("disabled", "inactive"), unit(load="masked"), []),
    ],
)
def test_steps_back_to_the_recorded_state(was: dict[str, str], found: dict[str, str], steps: list[str]) -> None:
    assert host_record.unit_steps(was, found) == steps


class Host(StandIn):
    """A host with units, which `systemctl` shows and changes."""

    def __init__(self, found: dict[str, dict[str, str]], **params: Any) -> None:
        super().__init__(self.systemctl, role="r", **params)
        self.found = found
        self.steps: list[str] = []

    def systemctl(self, argv: list[str]) -> tuple[int, str, str]:
        name = argv[-1]
        assert argv[0] == "systemctl"
        assert argv[-2] == "--"
        if argv[1] != "show":
            self.steps.append(f"{argv[1]} {name}")
            return (1, "", "no") if name == "stuck.service" else (0, "", "")
        row = self.found[name]
        text = "LoadState={load}\nUnitFileState={enabled}\nActiveState={active}\n\nnoise\n"
        return 0, text.format(**row), ""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of kernel settings."""
    folder = tmp_path / "sys"
    folder.mkdir()
    monkeypatch.setattr(host_record, "setting_path", lambda name: folder / name)
    return folder


def test_the_file_of_a_setting() -> None:
    assert str(host_record.setting_path("net.core.somaxconn")) == "/proc/sys/net/core/somaxconn"


def record_of(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def test_only_what_differs_is_restored_and_the_other_roles_stay(
    tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "etc" / "record.json"
    for name, value in (("a", "1\t2\n"), ("b", "3\n")):
        (settings / name).write_text(value)
    units = {"x.service": unit("disabled", "inactive"), "y.service": unit()}
    want = {"units": list(units), "settings": ["a", "b", "gone"], "notes": {"users": ["kim"]}, "values": {"tz": "UTC"}}
    answer = play(monkeypatch, host_record, Host(units, record=str(record), **want))
    entries = {"units": units, "settings": {"a": "1\t2", "b": "3"}, "users": ["kim"], "tz": "UTC"}
    assert answer == {"failed": False, "changed": False, "entries": entries, "restored": [], "ddp_changes": []}
    assert record_of(record) == {"r": entries, "acceptance": {"due": True}}
    record.write_text(json.dumps({"r": {**entries, "packages": ["p"], "replaced": ["q"]}, "other": {"n": 1}}))
    (settings / "a").write_text("1 2\n")
    (settings / "b").write_text("4\n")
    changed = {"x.service": unit("enabled", "inactive"), "y.service": unit()}
    before = record.read_bytes()
    checked = Host(changed, record=str(record), state="restored")
    checked.check_mode = True
    answer = play(monkeypatch, host_record, checked)
    assert (answer["restored"], answer["changed"], checked.steps) == (["b", "x.service"], True, [])
    assert ((settings / "b").read_text(), record.read_bytes()) == ("4\n", before)
    host = Host(changed, record=str(record), state="restored")
    answer = play(monkeypatch, host_record, host)
    assert (answer["restored"], answer["changed"], host.steps) == (["b", "x.service"], True, ["disable x.service"])
    assert answer["entries"]["users"] == ["kim"]
    assert all(given == {"LC_ALL": "C", "LANGUAGE": "C"} for given in host.environments)
    assert ((settings / "a").read_text(), (settings / "b").read_text()) == ("1 2\n", "3\n")
    assert record_of(record) == {"r": {"packages": ["p"], "replaced": ["q"]}, "other": {"n": 1}}
    gone = Host({}, record=str(record), state="restored")
    (settings / "b").unlink()
    assert play(monkeypatch, host_record, gone)["changed"] is False


def test_a_setting_that_is_gone_is_not_written(settings: Path) -> None:
    host: Any = StandIn()
    assert host_record.restore_settings(host, {"gone": "1"}) == []
    assert not (settings / "gone").exists()


def test_the_first_record_stays_and_only_new_names_are_read(
    tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = str(tmp_path / "etc" / "record.json")
    (settings / "a").write_text("1\n")
    (settings / "b").write_text("1\n")
    first = Host({"x.service": unit()}, record=record, units=["x.service"], settings=["a"])
    play(monkeypatch, host_record, first)
    (settings / "a").write_text("2\n")
    units = {"x.service": unit("disabled"), "y.service": unit("static"), "z.service": unit(load="not-found")}
    second = Host(units, record=record, units=list(units), settings=["a", "b"])
    entries = play(monkeypatch, host_record, second)["entries"]
    assert entries["settings"] == {"a": "1", "b": "1"}
    assert entries["units"] == {"x.service": unit(), "y.service": unit("static")}
    assert [argv[-1] for argv in second.asked] == ["y.service", "z.service"]
    third = Host({}, record=record, state="read", units=["x.service"], settings=["a"])
    answer = play(monkeypatch, host_record, third)
    assert (answer["entries"], answer["changed"], third.asked) == (entries, False, [])


def test_a_record_that_would_not_change_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "etc" / "record.json"
    for _ in range(2):
        play(monkeypatch, host_record, StandIn(role="r", record=str(record), notes={"users": ["a", "b"]}))
        record.chmod(0o600)  # what is written again gets its mode again
    assert record.stat().st_mode & 0o777 == 0o600
    play(monkeypatch, host_record, StandIn(role="r", record=str(record), notes={"users": ["b"], "holds": ["c"]}))
    assert record_of(record) == {"r": {"users": ["a", "b"], "holds": ["c"]}, "acceptance": {"due": True}}
    assert record.stat().st_mode & 0o777 == 0o644


def test_systemctl_that_fails_ends_the_module_and_the_record_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "etc" / "record.json"
    play(monkeypatch, host_record, Host({"stuck.service": unit()}, record=str(record), units=["stuck.service"]))
    before = record.read_bytes()
    host = Host({"stuck.service": unit("disabled")}, record=str(record), state="restored")
    assert play(monkeypatch, host_record, host)["failed"]
    assert record.read_bytes() == before
    silent = StandIn(lambda _argv: (1, "", "no bus"), role="r", record=str(record), units=["new.service"])
    assert play(monkeypatch, host_record, silent)["msg"] == "no bus"
