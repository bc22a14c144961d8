"""The module `recorded_packages`, run as a program with an apt-get and a dpkg-query of the test's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import recorded_packages

from tests.unit.modules.module_process import FORKER

if TYPE_CHECKING:
    from pathlib import Path

# Each installed package is a file with the names that it needs; `install` adds chrony with a dependency.
APT = """#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> log
for word; do last=$word; done
case "$*" in
  *update*) exit 0;;
  *--simulate*install*)
    [ ! -e going ] || echo "Remv $(cat going) [1.0]"
    echo 'Inst libedit2 (3.1 Debian:12 [amd64])'
    echo 'Inst tzdata [1.0] (2.0 Debian:12 [all])'
    echo 'Inst chrony (4.3 Debian:12 [amd64])';;
  *--simulate*purge*)
    for word; do
      [ ! -e db/$word ] || { echo "Purg $word [1.0]"; grep -lx $word db/* | sed 's,db/,Remv ,'; }
    done; true;;
  *purge*) for word; do rm -f db/$word; done;;
  *install*timesyncd*) : > db/systemd-timesyncd;;
  *install*) [ ! -e going ] || rm -f "db/$(cat going)"; echo libedit2 > db/chrony; : > db/libedit2;;
esac
"""
DPKG = """#!/bin/sh
cd "$(dirname "$0")/db" && for name in *; do [ ! -e "$name" ] || echo "$name installed"; done
"""


class Machine:
    """A host with packages."""

    def __init__(self, folder: Path) -> None:
        """Only bash is there."""
        self.folder = folder
        self.record = folder / "etc" / "record.json"
        (folder / "db").mkdir()
        (folder / "db" / "bash").touch()
        for name, text in (("apt-get", APT), ("dpkg-query", DPKG)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def packages(self) -> set[str]:
        """Names of the installed packages."""
        return {path.name for path in (self.folder / "db").iterdir()}

    def play(self, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        """The module's answer."""
        given = {"role": "r", "record": str(self.record), "lock_timeout_s": 0, "_ansible_check_mode": check}
        return FORKER.answer(recorded_packages.__file__, {**given, **arguments}, path=str(self.folder))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_dependencies_are_recorded_and_upgrades_are_not(machine: Machine) -> None:
    assert machine.play(names=["chrony"])["packages"] == ["libedit2", "chrony"]
    assert json.loads(machine.record.read_text()) == {"r": {"packages": ["chrony", "libedit2"]}}


def test_removal_takes_what_was_added_and_nothing_else(machine: Machine) -> None:
    machine.play(names=["chrony"])
    assert machine.play(state="absent", check=True)["packages"] == ["chrony", "libedit2"]
    assert machine.play(state="absent")["packages"] == ["chrony", "libedit2"]
    assert machine.packages() == {"bash"}
    assert not machine.record.exists()
    assert not machine.play(state="absent")["changed"]


def test_what_another_package_needs_stays_until_nothing_needs_it(machine: Machine) -> None:
    machine.play(names=["chrony"])
    (machine.folder / "db" / "theirs").write_text("libedit2\n")
    done = machine.play(state="absent")
    assert (done["packages"], done["kept"]) == (["chrony"], ["libedit2"])
    assert machine.packages() == {"bash", "theirs", "libedit2"}
    assert machine.play(role="other", state="absent")["kept"] == ["libedit2"]
    (machine.folder / "db" / "theirs").unlink()
    assert machine.play(role="other", state="absent")["packages"] == ["libedit2"]
    assert not machine.record.exists()


def test_a_transaction_that_removes_something_is_refused(machine: Machine) -> None:
    (machine.folder / "going").write_text("systemd-timesyncd")
    done = machine.play(names=["chrony"])
    assert done["failed"]
    assert "it would remove systemd-timesyncd, which ddp-play did not install" in done["msg"]
    assert (machine.packages(), machine.record.exists()) == ({"bash"}, False)


def test_a_package_that_is_replaced_comes_back(machine: Machine) -> None:
    (machine.folder / "going").write_text("systemd-timesyncd")
    (machine.folder / "db" / "systemd-timesyncd").touch()
    assert machine.play(names=["chrony"], replaces=["systemd-timesyncd"])["changed"]
    assert machine.packages() == {"bash", "chrony", "libedit2"}
    assert json.loads(machine.record.read_text())["r"]["replaced"] == ["systemd-timesyncd"]
    assert machine.play(state="absent")["changed"]
    assert machine.packages() == {"bash", "systemd-timesyncd"}
    assert not machine.record.exists()


def test_an_installation_that_was_cut_off_is_recorded(machine: Machine) -> None:
    """The record has it before the installation begins."""
    (machine.folder / "apt-get").write_text(APT.replace("*install*) [", "*install*) cp etc/record.json during; ["))
    machine.play(names=["chrony"])
    during = json.loads((machine.folder / "during").read_text())
    assert during["r"]["packages"] == ["chrony", "libedit2"]


def test_an_installation_that_fails_claims_nothing_that_is_not_there(machine: Machine) -> None:
    """What somebody installs afterwards is not the role's. libedit2 was added, chrony was not."""
    apt = machine.folder / "apt-get"
    apt.write_text(APT.replace("*install*) [", "*install*) : > db/libedit2; exit 9; ["))
    (machine.folder / "going").write_text("systemd-timesyncd")
    (machine.folder / "db" / "systemd-timesyncd").touch()
    assert machine.play(names=["chrony"], replaces=["systemd-timesyncd"])["failed"]
    assert json.loads(machine.record.read_text()) == {"r": {"packages": ["libedit2"]}}
    apt.write_text(APT)
    (machine.folder / "db" / "chrony").touch()
    assert machine.play(state="absent")["packages"] == ["libedit2"]
    assert machine.packages() == {"bash", "systemd-timesyncd", "chrony"}


def test_what_failed_before_does_not_forget_what_is_known(machine: Machine) -> None:
    machine.play(names=["chrony"])
    (machine.folder / "db" / "chrony").unlink()  # by hand
    (machine.folder / "apt-get").write_text(APT.replace("*install*) [", "*install*) exit 9; ["))
    assert machine.play(names=["chrony"])["failed"]
    assert json.loads(machine.record.read_text()) == {"r": {"packages": ["chrony", "libedit2"]}}


def test_a_replaced_package_that_no_repository_has_is_a_warning(machine: Machine) -> None:
    (machine.folder / "going").write_text("systemd-timesyncd")
    (machine.folder / "db" / "systemd-timesyncd").touch()
    machine.play(names=["chrony"], replaces=["systemd-timesyncd"])
    missing = "*install*timesyncd*) echo 'E: Unable to locate package systemd-timesyncd' >&2; exit 100"
    (machine.folder / "apt-get").write_text(APT.replace("*install*timesyncd*) : > db/systemd-timesyncd", missing))
    done = machine.play(state="absent")
    assert done["packages"] == ["chrony", "libedit2"]
    (warning,) = done["warnings"]
    assert "systemd-timesyncd, which the removed packages had replaced: apt-get" in str(warning)
    assert "Unable to locate package systemd-timesyncd" in str(warning)
    assert (machine.packages(), machine.record.exists()) == ({"bash"}, False)


def test_planned_packages_are_removed_too(machine: Machine) -> None:
    """The driver's installation was cut off, before added_packages could record what it had added."""
    machine.record.parent.mkdir()
    machine.record.write_text(json.dumps({"r": {"planned": ["chrony", "libedit2"]}}))
    (machine.folder / "db" / "chrony").touch()
    assert machine.play(state="absent")["packages"] == ["chrony"]
    assert (machine.packages(), machine.record.exists()) == ({"bash"}, False)


def test_check_mode_changes_nothing(machine: Machine) -> None:
    assert machine.play(names=["chrony"], check=True)["changed"]
    assert (machine.packages(), machine.record.exists()) == ({"bash"}, False)


def subjects(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["what"], row["whose"]) for row in answer["ddp_changes"]]


NEW = [("add", "package libedit2", "new"), ("add", "package chrony", "new")]


def test_check_mode_simulates_with_the_lists_of_the_host(machine: Machine) -> None:
    """Nothing is updated: that would change the lists of the host."""
    (machine.folder / "going").write_text("systemd-timesyncd")
    done = machine.play(check=True, names=["chrony"], replaces=["systemd-timesyncd"])
    assert subjects(done) == [
        ("remove", "package systemd-timesyncd", "theirs"),
        ("change", "package tzdata", "theirs"),
        *NEW,
    ]
    calls = (machine.folder / "log").read_text().splitlines()
    assert [line.count("--simulate") for line in calls] == [1]
    assert (machine.packages(), machine.record.exists()) == ({"bash"}, False)


def test_check_mode_refuses_what_the_installation_would_refuse(machine: Machine) -> None:
    (machine.folder / "going").write_text("systemd-timesyncd")
    done = machine.play(check=True, names=["chrony"])
    assert done["failed"]
    assert "it would remove systemd-timesyncd, which ddp-play did not install" in done["msg"]


def test_check_mode_names_packages_that_no_list_has_yet(machine: Machine) -> None:
    (machine.folder / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    done = machine.play(check=True, names=["chrony"])
    assert (done["changed"], subjects(done)) == (True, NEW[1:])


def test_the_answer_lists_packages_added_replaced_and_removed(machine: Machine) -> None:
    assert subjects(machine.play(names=["chrony"])) == [("change", "package tzdata", "theirs"), *NEW]
    gone = machine.play(state="absent")
    assert subjects(gone) == [("remove", "package chrony", "ours"), ("remove", "package libedit2", "ours")]
