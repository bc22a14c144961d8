"""The module `fstab`, run as a program: lines of mount points, and byte for byte what was there before."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import fstab

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import StandIn, play

SITE = "# made by the installer\nUUID=1  /  ext4\tdefaults 0 1\n\nbroken line\n#nas:/old /data nfs soft 0 0\n"
OURS = "nas:/srv /data nfs hard,nofail 0 0"
OLD = "nas:/srv   /data nfs\thard 0 0  # since 2019\n"


class Host:
    """A host with an fstab."""

    def __init__(self, folder: Path) -> None:
        """The site's lines."""
        self.path, self.record = folder / "fstab", folder / "etc" / "record.json"
        self.path.write_text(SITE)

    def play(self, state: str = "present", line: str = OURS, *, check: bool = False, **more: Any) -> dict[str, Any]:
        """What the module answers about /data."""
        given = {"role": "r", "state": state, "path": str(self.path), "record": str(self.record), **more}
        lines = [{"mountpoint": "/data", "line": line}]
        return FORKER.answer(fstab.__file__, {**given, "lines": lines, "_ansible_check_mode": check})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_new_line_is_added_once_and_removed(host: Host) -> None:
    host.path.chmod(0o640)
    assert host.play(check=True)["changed"]
    assert (host.path.read_text(), host.record.exists()) == (SITE, False)
    assert host.play()["ddp_changes"] == [{"kind": "add", "what": f"line of /data in {host.path}", "whose": "new"}]
    assert host.path.read_text() == SITE + OURS + "\n"
    assert not host.play()["changed"]
    answer = host.play("absent")
    assert (answer["changed"], answer["given_back"]) == (True, [])
    assert (host.path.read_text(), host.path.stat().st_mode & 0o777, host.record.exists()) == (SITE, 0o640, False)
    assert not host.play("absent")["changed"]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(SITE + OLD + "tmpfs /tmp tmpfs defaults\n", id="in the middle"),
        pytest.param(SITE + OLD.rstrip("\n"), id="last and without a newline"),
        pytest.param(SITE + "tmpfs /tmp tmpfs defaults", id="none, last line without a newline"),
        pytest.param("", id="empty file"),
        pytest.param("a\x0cb /data\x85\n\r\n", id="other line ends"),
    ],
)
def test_what_was_there_returns_byte_for_byte(host: Host, before: str) -> None:
    host.path.write_bytes(before.encode())
    host.play()
    host.play(line=OURS.replace("hard", "hard,vers=4.2"))
    there = [line for line in host.path.read_bytes().decode().split("\n") if fstab.is_for(line, "/data")]
    assert there == [OURS.replace("hard", "hard,vers=4.2")]
    assert host.play("absent")["kept"] == []
    assert host.path.read_bytes() == before.encode()


def test_two_lines_of_one_mount_point_return_together(host: Host) -> None:
    host.path.write_text(OLD + SITE + OLD)
    host.play()
    assert host.path.read_text() == OURS + "\n" + SITE
    assert host.play("absent")["given_back"] == [OLD.rstrip("\n")] * 2
    assert host.path.read_text() == OLD + OLD + SITE


def test_bytes_that_are_no_text_stay(host: Host) -> None:
    host.path.write_bytes(b"# \xff\n")
    host.play()
    host.play("absent")
    assert host.path.read_bytes() == b"# \xff\n"


def test_a_file_that_cannot_be_replaced_stays_as_it_is(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, where it is often a mount of its own."""

    def busy(_self: StandIn, _source: str, target: str) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy", target)

    monkeypatch.setattr(StandIn, "atomic_move", busy)
    lines = [{"mountpoint": "/data", "line": OURS}]
    with pytest.raises(OSError, match="busy"):
        play(monkeypatch, fstab, StandIn(role="r", lines=lines, path=str(host.path), record=str(host.record)))
    assert host.path.read_text() == SITE
    assert sorted(path.name for path in host.path.parent.iterdir()) == ["etc", "fstab"]


def test_lines_that_the_site_adds_meanwhile_stay(host: Host) -> None:
    host.play()
    host.path.write_text("proc /proc proc\n" + host.path.read_text() + "tmpfs /tmp tmpfs\n")
    host.play("absent")
    assert host.path.read_text() == "proc /proc proc\n" + SITE + "tmpfs /tmp tmpfs\n"


def test_a_line_that_the_site_changed_stays(host: Host) -> None:
    host.play()
    host.path.write_text(SITE + OLD)
    answer = host.play("absent")
    assert (answer["changed"], answer["kept"], host.path.read_text()) == (False, ["/data"], SITE + OLD)


def test_a_line_that_the_site_removed_does_not_return(host: Host) -> None:
    host.path.write_text(SITE + OLD)
    host.play()
    host.path.write_text(SITE)
    assert not host.play("absent")["changed"]
    assert (host.path.read_text(), host.record.exists()) == (SITE, False)


@pytest.mark.parametrize("before", [OLD, "nas:/srv /data nfs4 vers=4.1 0 0\n", "old:/srv /data nfs hard 0 0\n"])
def test_a_line_for_the_same_mount_is_the_sites_without_a_record(host: Host, before: str) -> None:
    """Whatever else the role has on the host: a run that failed at the mount has left its files, and no line."""
    host.path.write_text(SITE + before)
    host.record.parent.mkdir()
    host.record.write_text(json.dumps({"r": {"packages": ["nfs-common"]}}))
    host.play()
    host.play("absent")
    assert host.path.read_text() == SITE + before


def test_a_line_without_a_record_is_the_sites_and_stays(host: Host) -> None:
    """Also one that reads like the role's, and after a first removal."""
    host.path.write_text(OURS + "\n" + SITE)
    assert not host.play()["changed"]
    host.play("absent")
    assert host.path.read_text() == OURS + "\n" + SITE
    host.path.write_text(OLD + SITE)
    host.play()
    for changed in (True, False):
        assert host.play("absent")["changed"] is changed
        assert host.path.read_text() == OLD + SITE


def test_other_entries_of_the_record_stay(host: Host) -> None:
    host.record.parent.mkdir()
    host.record.write_text(json.dumps({"r": {"packages": ["nfs-common"]}, "s": {"units": {}}}))
    before = json.loads(host.record.read_text())
    host.play()
    assert json.loads(host.record.read_text())["r"]["packages"] == ["nfs-common"]
    host.play("absent")
    assert json.loads(host.record.read_text()) == {key: value for key, value in before.items() if value}
