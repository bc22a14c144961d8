"""Judgement of block devices, from output of lsblk 2.38 and wipefs 2.38."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import block_devices

LABEL = "ddp-12345678"
DISK = {"name": "/dev/nvme1n1", "type": "disk", "ro": False, "mountpoints": [None]}
PARTITION = {"name": "/dev/nvme1n1p1", "type": "part", "ro": False, "mountpoints": ["/"]}
MEMBER = {"name": "/dev/md0", "type": "raid0", "ro": False, "mountpoints": [None]}


def signature(kind: str, label: str | None = None) -> dict[str, Any]:
    return {"device": "nvme1n1", "offset": "0x438", "type": kind, "uuid": "0a", "label": label}


def answers(*signatures: dict[str, Any], head: int = 0, **row: Any) -> dict[str, Any]:
    text = json.dumps({"signatures": list(signatures)}) if signatures else ""
    return {
        "tree": {"rc": 0, "stdout": json.dumps({"blockdevices": [{**DISK, **row}]})},
        "signatures": {"rc": 0, "stdout": text},
        "head": {"rc": head, "stdout": ""},
    }


ABSENT = {name: {"rc": 32, "stdout": ""} for name in ("tree", "signatures", "head")}
OURS = signature("ext4", LABEL)


@pytest.mark.parametrize(
    ("found", "judged", "reason"),
    [
        (answers(), "empty", ""),
        (answers(OURS, head=1), "ours", ""),
        (answers(OURS, head=1, mountpoints=["/scratch"]), "ours", ""),
        (ABSENT, "refused", "no block device"),
        (answers(head=1), "refused", "data without a signature"),
        (answers(head=2), "refused", "data without a signature"),
        (answers(ro=True), "refused", "read-only"),
        (answers(mountpoints=["/srv"]), "refused", "mounted at /srv"),
        (answers(children=[PARTITION]), "refused", "/dev/nvme1n1p1 (part)"),
        (answers(OURS, children=[MEMBER]), "refused", "/dev/md0 (raid0)"),
        (answers(signature("gpt"), signature("PMBR")), "refused", "carries gpt, PMBR"),
        (answers(signature("ext4", "data")), "refused", "carries ext4 data"),
        (answers(signature("ext4")), "refused", "carries ext4"),
        (answers(signature("xfs", LABEL)), "refused", f"carries xfs {LABEL}"),
        (answers(OURS, signature("zfs_member")), "refused", f"carries ext4 {LABEL}, zfs_member"),
        *((answers(signature(kind)), "refused", kind) for kind in ("swap", "LVM2_member", "linux_raid_member")),
    ],
)
def test_judgement(found: dict[str, Any], judged: str, reason: str) -> None:
    answer, why = block_devices.judge(found, "ext4", LABEL)
    assert answer == judged
    assert reason.replace("no block", "not a block") in why
    assert bool(why) == (judged == "refused")


def test_names_and_mounts() -> None:
    assert block_devices.mounts(answers(mountpoints=[None, "/a", "/b"])) == ["/a", "/b"]
    assert block_devices.mounts(ABSENT) == []
    assert (block_devices.kernel_name(answers()), block_devices.kernel_name(ABSENT)) == ("/dev/nvme1n1", "")
