"""Mounts that come back after role nfs_client: what was there, as read from findmnt and from fstab, and what failed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import nfs_client_back as back

DATA = {"server": "nfs1", "path": "/srv/data", "mountpoint": "/data"}
THERE = {"target": "/data", "source": "nas:/data", "fstype": "nfs4", "options": "rw,vers=4.1,hard"}
LINE = "nas:/data /data nfs4 vers=4.1,nofail 0 0"
ROW = {
    "mountpoint": "/data",
    "source": "nas:/data",
    "fstype": "nfs4",
    "options": "rw,vers=4.1,hard",
    "unit": "",
    "command": "mount -t nfs4 -o rw,vers=4.1,hard nas:/data /data",
}
OF_LINE = {**ROW, "options": "vers=4.1,nofail", "command": "mount /data"}


def state(*there: dict[str, str], active: str = "inactive") -> dict[str, Any]:
    found = {"rc": 0, "stdout": json.dumps({"filesystems": there}) if there else ""}
    return {"commands": {"mounted": found}, "units": {"data.automount": {"active": active}}}


@pytest.mark.parametrize(
    ("host", "rows"),
    [
        pytest.param(state(), [], id="nothing"),
        pytest.param(state({**THERE, "target": "/other"}), [], id="elsewhere"),
        pytest.param(state(THERE), [ROW], id="a mount"),
        pytest.param(state({**THERE, "source": "below:/"}, THERE), [ROW], id="the one on top"),
        pytest.param(
            state(THERE, active="active"),
            [{**ROW, "unit": "data.automount", "command": "systemctl start data.automount"}],
            id="at first use",
        ),
    ],
)
def test_what_was_mounted_before(host: dict[str, Any], rows: list[dict[str, str]]) -> None:
    assert back.former(host, DATA) == rows


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ([], []),
        ([LINE], [OF_LINE]),
        ([LINE, LINE.replace("nas", "other")], [OF_LINE]),
        ([LINE.replace("nofail", "noauto")], []),
        (
            [LINE.replace("nofail", "noauto,x-systemd.automount")],
            [{**OF_LINE, "options": "vers=4.1,noauto,x-systemd.automount"}],
        ),
        (["nas:/data /data nfs4"], [{**OF_LINE, "options": "defaults"}]),
        ([LINE.replace("/data nfs4", "/other nfs4")], []),
    ],
)
def test_lines_that_returned_are_mounted_where_the_role_has_unmounted(
    lines: list[str], rows: list[dict[str, str]]
) -> None:
    unmounted = {"mounted": [DATA], "ours": [DATA]}
    assert back.given_back(lines, state(), unmounted) == rows
    assert back.given_back(lines, state(active="active"), {**unmounted, "mounted": []}) == rows
    assert back.given_back(lines, state(), {**unmounted, "mounted": []}) == []


def test_a_wait_for_the_first_use_is_no_mount() -> None:
    assert back.lookups_back([]) == {}
    assert back.lookups_back([ROW]) == {
        "probe /data": ["stat", "--file-system", "/data"],
        "back /data": ["findmnt", "--noheadings", "--types", "noautofs", "--mountpoint", "/data"],
    }


TRIED = {back.ROW: ROW, "msg": "Error mounting /data: mount.nfs:\ntimed out\n"}
REASON = f"{ROW['command']} (Error mounting /data: mount.nfs: timed out)"


@pytest.mark.parametrize(
    ("rows", "rc", "tried", "missing", "said"),
    [
        ([], 1, [], [], ""),
        ([ROW], 0, [TRIED], [], "What was mounted on /data before is mounted again, with the line of fstab unchanged."),
        ([ROW], 1, [TRIED], [REASON], f"What was mounted on /data before is not mounted again: {REASON}"),
        (
            [ROW],
            1,
            [{"skipped": True}],
            [f"{ROW['command']} (no answer)"],
            f"What was mounted on /data before is not mounted again: {ROW['command']} (no answer)",
        ),
    ],
)
def test_what_is_not_back(
    rows: list[dict[str, str]], rc: int, tried: list[dict[str, Any]], missing: list[str], said: str
) -> None:
    found = back.not_back({"commands": {"back /data": {"rc": rc}}}, rows, tried)
    assert found == missing
    assert back.said_back(found, rows) == said
