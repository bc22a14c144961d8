"""The module `host_record`, run as a program with a systemctl of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_record

from tests.unit.modules.module_process import FORKER

if TYPE_CHECKING:
    from pathlib import Path

# Answers `show` from the files enabled and active of its directory, and writes them for the other verbs.
SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
  show) printf 'LoadState=%s\\nUnitFileState=%s\\nActiveState=%s\\n' "$(cat load)" "$(cat enabled)" "$(cat active)";;
  enable) echo enabled > enabled;; disable) echo disabled > enabled;;
  start) echo active > active;; stop) echo inactive > active;;
esac
"""


class Machine:
    """A host with one unit."""

    def __init__(self, folder: Path) -> None:
        """A unit that is disabled and stopped."""
        self.folder = folder
        (folder / "systemctl").write_text(SYSTEMCTL)
        (folder / "systemctl").chmod(0o755)
        self.be("disabled", "inactive")

    def be(self, enabled: str, active: str, load: str = "loaded") -> None:
        """Give the unit a state."""
        for name, value in (("enabled", enabled), ("active", active), ("load", load)):
            (self.folder / name).write_text(value)

    def state(self) -> tuple[str, str]:
        """Enablement and activity of the unit."""
        enabled, active = ((self.folder / name).read_text().strip() for name in ("enabled", "active"))
        return enabled, active

    def play(self, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """The module's answer."""
        given = {"role": "r", "record": str(self.folder / "etc" / "record.json"), "_ansible_check_mode": check}
        return FORKER.answer(host_record.__file__, {**given, **arguments}, path=str(self.folder))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_unit_gets_the_state_of_the_first_record_back(machine: Machine) -> None:
    machine.play(units=["a.service"])
    machine.be("enabled", "active")
    assert not machine.play(units=["a.service"])["changed"]
    assert machine.play(state="restored", check=True)["restored"] == ["a.service"]
    assert machine.state() == ("enabled", "active")
    assert machine.play(state="restored")["changed"]
    assert machine.state() == ("disabled", "inactive")
    assert not (machine.folder / "etc").exists()


def test_nothing_is_done_without_a_record_or_a_difference(machine: Machine) -> None:
    assert not machine.play(state="restored")["changed"]
    machine.play(units=["a.service"])
    assert not machine.play(state="restored")["changed"]


def test_a_unit_that_is_not_there_is_neither_recorded_nor_restored(machine: Machine) -> None:
    machine.be("", "inactive", load="not-found")
    assert machine.play(units=["a.service"])["entries"] == {}
    machine.be("disabled", "inactive")
    machine.play(units=["a.service"])
    machine.be("", "active", load="not-found")
    assert not machine.play(state="restored")["changed"]


def test_names_add_up_and_the_first_value_stays(machine: Machine) -> None:
    machine.play(notes={"users": ["b"]}, values={"timezone": "UTC"})
    machine.play(notes={"users": ["a"]}, values={"timezone": "CET"})
    assert machine.play(state="read")["entries"] == {"users": ["a", "b"], "timezone": "UTC"}
    assert machine.play(state="restored")["entries"]["users"] == ["a", "b"]
    assert machine.play(state="read")["entries"] == {}


def test_the_packages_of_a_role_stay_in_the_record(machine: Machine) -> None:
    machine.play(notes={"users": ["a"], "packages": ["chrony"]})
    machine.play(state="restored")
    assert machine.play(state="read")["entries"] == {"packages": ["chrony"]}


def test_a_host_is_new_from_its_first_record_until_it_was_checked(machine: Machine) -> None:
    machine.play(units=["a.service"])
    assert machine.play(role="acceptance", state="read")["entries"] == {"due": True}
    machine.play(notes={"users": ["a"]})
    assert machine.play(role="acceptance", state="restored")["entries"] == {"due": True}
    machine.play(role="s", notes={"users": ["b"]})
    assert machine.play(role="acceptance", state="read")["entries"] == {}
    machine.play(state="restored")
    machine.play(role="s", state="restored")
    assert not (machine.folder / "etc").exists()
    machine.play(notes={"users": ["a"]})
    assert machine.play(role="acceptance", state="read")["entries"] == {"due": True}, "it was deprovisioned"


def test_check_mode_records_nothing(machine: Machine) -> None:
    machine.play(units=["a.service"], check=True)
    assert not (machine.folder / "etc").exists()


def test_a_kernel_setting_gets_its_value_back(machine: Machine, tmp_path: Path) -> None:
    # A value that is there already is not written again, which a test may do anywhere.
    found = machine.play(settings=["kernel.ostype", "no.such.setting"])["entries"]
    assert found == {"settings": {"kernel.ostype": "Linux"}}
    assert not machine.play(state="restored")["changed"]
