"""Lines of fstab: paths as fields, and what a role has written for mount points that are not wanted any more."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import mount_lines

TEXT = r"nfs1:/srv/old /old\040data nfs vers=4.2,soft 0 0"
ENTRIES: dict[str, Any] = {
    "fstab": {"/data": {"line": "nfs1:/srv/data /data nfs hard 0 0"}, "/old data": {"line": TEXT}},
    "packages": ["nfs-common"],
}


@pytest.mark.parametrize("path", ["/data", "/my data", "/tab\there", "/back\\slash", "/line\nbreak"])
def test_a_path_survives_as_a_field(path: str) -> None:
    field = mount_lines.escaped(path)
    assert len(field.split()) == 1
    assert mount_lines.unescaped(field) == path


def test_the_record_knows_lines_of_other_mount_points() -> None:
    line = mount_lines.Line(TEXT, "nfs1:/srv/old", "/old data", "nfs", ["vers=4.2", "soft"])
    assert mount_lines.recorded_beyond(ENTRIES, {"/data"}) == [line]
    assert [row.mountpoint for row in mount_lines.recorded_beyond(ENTRIES, ())] == ["/data", "/old data"]
    assert mount_lines.recorded_beyond({}, ()) == []


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (TEXT, ("nfs1:/srv/old", "/old data", "nfs", ["vers=4.2", "soft"])),
        (r"//nas/a\040b /b cifs", ("//nas/a b", "/b", "cifs", ["defaults"])),
        ("nas:/a /b", ("nas:/a", "/b", "auto", ["defaults"])),
    ],
)
def test_fields_of_a_line(text: str, fields: tuple[object, ...]) -> None:
    assert mount_lines.parsed(text) == (text, *fields)


def test_mounts_get_the_line_that_the_record_has() -> None:
    mounts = [{"mountpoint": "/data"}, {"mountpoint": "/other"}]
    found = mount_lines.with_written(mounts, ENTRIES)
    assert found == [{"mountpoint": "/data", "written": ENTRIES["fstab"]["/data"]["line"]}, {"mountpoint": "/other"}]
    assert mount_lines.with_written(mounts, {}) == mounts


@pytest.mark.parametrize(
    ("mount", "fstab", "as_written"),
    [
        ({"mountpoint": "/old data", "written": TEXT}, f"proc /proc proc\n{TEXT}\n", True),
        ({"mountpoint": "/old data", "written": TEXT}, f"{TEXT}\nnas:/b /old\\040data nfs hard 0 0\n", False),
        ({"mountpoint": "/old data", "written": TEXT}, TEXT.replace("soft", "hard"), False),
        ({"mountpoint": "/old data", "written": TEXT}, f"#{TEXT}\n", False),
        ({"mountpoint": "/old data", "written": TEXT}, "", False),
        ({"mountpoint": "/old data"}, f"{TEXT}\n", False),
        ({"mountpoint": "/old data"}, "", False),
    ],
)
def test_a_line_is_as_written_if_it_is_the_only_one_of_its_mount_point(
    mount: dict[str, str], fstab: str, as_written: bool
) -> None:
    assert mount_lines.is_as_written(mount, fstab) is as_written


def test_which_mount_point_a_line_is_for() -> None:
    assert mount_lines.is_for("nas:/a /my\\040data nfs hard 0 0\n", "/my data")
    assert not mount_lines.is_for("# nas:/a /data nfs hard 0 0\n", "/data")
