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
