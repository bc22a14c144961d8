"""Decision of role scratch: what is made and mounted, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import scratch

from tests.unit.module_utils.test_block_devices import ABSENT, answers, signature

DEVICE = "/dev/disk/by-id/nvme-eui.1"
OTHER = "/dev/disk/by-id/nvme-eui.2"
OPTIONS = ["noatime", "nofail"]
LABEL = scratch.label("/scratch")
LINE = f"LABEL={LABEL} /scratch ext4 noatime,nofail 0 2"
GIVEN = [{"device": DEVICE, "mountpoint": "/scratch"}]
(FULL,) = scratch.complete(GIVEN, OPTIONS)
OURS = signature("ext4", LABEL)


def state(
    *filesystems: dict[str, Any], fstab: str = LINE, content: str = "", owner: str = "1777 root root", **devices: Any
) -> dict[str, Any]:
    """A host; `devices` are answers by the last letter of a device, by default ours and mounted."""
    commands: dict[str, Any] = {}
    for row in filesystems or (FULL,):
        there = devices.get(f"d{row['device'][-1]}", answers(OURS, head=1, mountpoints=[row["mountpoint"]]))
        commands |= {f"{name} {row['device']}": answer for name, answer in there.items()}
        commands[f"content {row['mountpoint']}"] = {"rc": 0, "stdout": content}
        commands[f"owner {row['mountpoint']}"] = {"rc": 0, "stdout": owner + "\n"}
    return {"commands": commands, "files": {"/etc/fstab": {"type": "file", "content": f"# static\n{fstab}\n"}}}


NOTHING: dict[str, Any] = {
    "to_make": [],
    "to_mount": [],
    "to_write": [],
    "to_own": [],
    "problems": [],
    "changes": [],
    "mounted": [FULL],
    "ours": [FULL],
    "named": [],
    "to_unmount": [],
}
RECORDED = {"fstab": {"/scratch": {"line": LINE}}}
MAKE, MOUNT = f"file system on {DEVICE}", "mount /scratch"
OWN = "mode and owner of /scratch"


def test_nothing_wanted() -> None:
    assert scratch.decide(state(), []) == {key: [] for key in NOTHING}
    assert (scratch.packages([]), scratch.commands([])) == ([], {})


@pytest.mark.parametrize(
    ("host", "changed"),
    [
        (state(), {}),
        (
            state(fstab="", d1=answers()),
            {
                **{key: [FULL] for key in ("to_make", "to_mount", "to_write", "to_own")},
                **{key: [] for key in ("mounted", "ours", "named", "to_unmount")},
                "changes": [MAKE, MOUNT, "line of /scratch", OWN],
            },
        ),
        (
            state(d1=answers(OURS, head=1)),
            {"to_mount": [FULL], "to_own": [FULL], "changes": [MOUNT, OWN], "mounted": [], "named": [FULL]},
        ),
        (state(fstab="#" + LINE), {"to_write": [FULL], "changes": ["line of /scratch"]}),
        (state(owner="755 root root"), {"to_own": [FULL], "changes": [OWN]}),
        (state(content="/scratch/file"), {}),
    ],
)
def test_decision(host: dict[str, Any], changed: dict[str, Any]) -> None:
    assert scratch.decide(host, [FULL]) == {**NOTHING, **changed}


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        (state(d1=ABSENT), f"{DEVICE} is not a block device of this host"),
        (state(d1=answers(signature("swap"))), f"{DEVICE} carries swap"),
        (state(d1=answers(), content="/scratch/file"), "/scratch is not empty (move its files away first)"),
    ],
)
def test_what_is_refused(host: dict[str, Any], problem: str) -> None:
    found = scratch.decide(host, [FULL])
    assert found["problems"] == [problem]
    assert found["to_make"] == [] or "not empty" in problem


def test_two_names_of_one_device_and_a_name_that_changes() -> None:
    rows = scratch.complete(
        [*GIVEN, {"device": OTHER, "mountpoint": "/more"}, {"device": "/dev/sd3", "mountpoint": "/x"}], []
    )
    host = state(*rows, d3=answers(name="/dev/sd3"), d1=answers(), d2=answers())
    assert scratch.decide(host, rows)["problems"] == [
        "/dev/nvme1n1 is named twice",
        "/dev/sd3 is no path in /dev/disk/by-id/",
    ]


def test_defaults_are_filled_in() -> None:
    assert FULL["line"] == LINE
    assert len(LABEL) == 12
    assert scratch.label("/scratch/") == LABEL != scratch.label("/scratch2")
    (xfs,) = scratch.complete([{**GIVEN[0], "fstype": "xfs", "options": ["ro"], "mode": "0755", "owner": ""}], OPTIONS)
    assert xfs["line"] == f"LABEL={LABEL} /scratch xfs ro 0 0"
    assert (xfs["owner"], scratch.packages([xfs, FULL])) == ("root", ["e2fsprogs", "xfsprogs"])
    assert (
        scratch.decide(
            state(
                xfs,
                owner="755 root root",
                fstab=xfs["line"],
                d1=answers(signature("xfs", LABEL), mountpoints=["/scratch"]),
            ),
            [xfs],
        )["changes"]
        == []
    )


def test_entries_of_modules() -> None:
    attributes = {"mode": "1777", "owner": "root", "group": "root"}
    assert scratch.directories([FULL], "directory") == [{"path": "/scratch", "state": "directory", **attributes}]
    assert scratch.directories([FULL], "absent") == [{"path": "/scratch", "state": "absent"}]
    assert scratch.lines([FULL]) == [{"mountpoint": "/scratch", "line": LINE}]


def test_the_record_knows_file_systems_that_left_the_inventory() -> None:
    assert scratch.with_recorded([FULL], {}) == [FULL]
    assert scratch.with_recorded([FULL], RECORDED) == [{**FULL, "written": LINE}]
    (row,) = scratch.with_recorded([], RECORDED)
    assert (row["device"], row["line"]) == (f"/dev/disk/by-label/{LABEL}", LINE)
    assert {key: row[key] for key in ("mountpoint", "fstype", "label", "options")} == {
        key: FULL[key] for key in ("mountpoint", "fstype", "label", "options")
    }


@pytest.mark.parametrize("inventory", [[FULL], []], ids=["in the inventory", "not any more"])
@pytest.mark.parametrize(
    ("entries", "fstab", "ours"),
    [
        pytest.param(RECORDED, LINE, True, id="as written"),
        pytest.param(RECORDED, "#" + LINE, False, id="removed by hand"),
        pytest.param(RECORDED, f"{LINE}\ntmpfs /scratch tmpfs defaults", False, id="another one for the mount point"),
        pytest.param({}, LINE, False, id="the record has none"),
    ],
)
def test_only_what_the_role_has_written_is_unmounted_and_only_what_the_inventory_has_is_wiped(
    inventory: list[Any], entries: dict[str, Any], fstab: str, ours: bool
) -> None:
    rows = scratch.with_recorded(inventory, entries)
    if not rows:
        return
    found = scratch.decide(state(*rows, fstab=fstab), rows)
    assert (found["to_unmount"], found["ours"]) == (rows if ours else [], rows)
    assert found["named"] == (rows if ours and inventory else [])
