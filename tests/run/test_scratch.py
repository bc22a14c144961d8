"""Role scratch and its module on real block devices of this machine: loop devices over files, as root.

Mounts, fstab and names in /dev/disk are those of a mount namespace of the test's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import scratch
from ansible_collections.ddp.play.plugins.modules import scratch_filesystem

from tests.unit.modules.module_process import FORKER

pytestmark = pytest.mark.runner

LABEL = "ddp-12345678"
SIZE = 64 << 20
BIN = Path(sys.executable).parent


def run(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(argv)}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def device_of(folder: Path) -> str:
    image = folder / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    return run("losetup", "--find", "--show", "--partscan", str(image))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A loop device with nothing on it."""
    if os.geteuid() or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root and /dev/loop-control")
    try:
        device = device_of(tmp_path)
    except AssertionError as error:
        pytest.skip(f"no loop devices here: {error}")
    try:
        yield device
    finally:
        run("blockdev", "--setrw", device)
        run("losetup", "--detach", device)


def play(device: str, state: str = "present", *, check: bool = False) -> dict[str, Any]:
    arguments = {"device": device, "fstype": "ext4", "label": LABEL, "state": state, "_ansible_check_mode": check}
    return FORKER.answer(scratch_filesystem.__file__, arguments)


def signatures(device: str) -> str:
    return run("wipefs", "--no-act", "--noheadings", "--output", "TYPE,LABEL", device)


def test_an_empty_device_gets_one_file_system_and_is_emptied_on_request(disk: str) -> None:
    assert play(disk, check=True)["changed"]
    assert signatures(disk) == ""
    assert play(disk)["judged"] == "empty"
    assert signatures(disk).split() == ["ext4", LABEL]
    before = Path(disk).read_bytes()
    again = play(disk)
    assert (again["changed"], again["judged"], Path(disk).read_bytes() == before) == (False, "ours", True)
    assert play(disk, "absent")["changed"]
    assert signatures(disk) == ""
    assert play(disk)["judged"] == "empty", "it can be used again"


def partitioned(disk: str) -> None:
    """A table of one partition, as DOS wrote it."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", 2048, 16384)
    with Path(disk).open("r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


def with_data(disk: str) -> None:
    with Path(disk).open("r+b") as file:
        file.seek(70000)
        file.write(b"a database that writes to the device itself")


CASES: dict[str, Callable[[str], object]] = {
    "file system of the site": lambda disk: run("mkfs.ext4", "-q", "-L", "data", disk),
    "our label and another type": lambda disk: run("mkfs.ext3", "-q", "-L", LABEL, disk),
    "swap": lambda disk: run("mkswap", disk),
    "partitions": partitioned,
    "data without a signature": with_data,
    "read-only": lambda disk: run("blockdev", "--setro", disk),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_device_that_is_not_empty_keeps_every_byte(disk: str, case: str) -> None:
    CASES[case](disk)
    before = Path(disk).read_bytes()
    answer = play(disk)
    assert answer["failed"]
    assert "nothing was changed" in answer["msg"]
    assert not play(disk, "absent")["changed"]
    assert Path(disk).read_bytes() == before


def test_a_device_that_somebody_holds_is_not_formatted(disk: str) -> None:
    held = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        answer = play(disk)
        assert answer["failed"]
        assert "is in use" in answer["msg"]
    finally:
        os.close(held)
    assert signatures(disk) == ""


def test_a_name_that_is_no_device_is_refused(tmp_path: Path) -> None:
    assert "is not a block device of this host" in play(str(tmp_path / "nvme9"))["msg"]


PLAY = """
- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: ddp.play.scratch}
      tags: [never, main]
    - ansible.builtin.import_role: {name: ddp.play.scratch, tasks_from: verify}
      tags: [never, verify]
    - ansible.builtin.import_role: {name: ddp.play.scratch, tasks_from: remove}
      tags: [never, remove]
"""
STEPS = """
set -eu
mount --make-rprivate /
mount -t overlay -o lowerdir=/etc,upperdir={work}/up,workdir={work}/work overlay /etc
mkdir -p {work}/dev /dev/disk && mount -t tmpfs tmpfs /dev/disk && mkdir /dev/disk/by-id && ln -s {disk} {name}
printf 'tmpfs /none tmpfs noauto 0 0' > /etc/fstab && cp /etc/fstab {work}/fstab.before
{play} main > {work}/first 2>&1
findmnt --noheadings --output FSTYPE --mountpoint {mountpoint} > {work}/mounted
blkid --probe --match-tag LABEL --output value {disk} >> {work}/mounted
stat --format '%a %U %G' {mountpoint} >> {work}/mounted
cp /etc/fstab {work}/fstab; echo kept > {mountpoint}/file
{play} main > {work}/second 2>&1
{play} verify > {work}/verified 2>&1
umount {mountpoint}; ! {play} verify > {work}/unmounted 2>&1
mount {mountpoint}; test -e {mountpoint}/file
{play} remove > {work}/removed 2>&1
cmp /etc/fstab {work}/fstab.before; test ! -e {mountpoint}; test ! -e /etc/ddp-play/record.json
{play} main > {work}/third 2>&1
test -e {mountpoint}/file
mkdir /dev/disk/by-label; ln -s {disk} /dev/disk/by-label/$(blkid --probe --match-tag LABEL --output value {disk})
{play} remove -e '{{"scratch_filesystems": [], "scratch_wipe": true}}' > {work}/left 2>&1
cmp /etc/fstab {work}/fstab.before; ! findmnt {mountpoint}; test ! -e {mountpoint}; test ! -e /etc/ddp-play/record.json
{play} main > {work}/fourth 2>&1
test -e {mountpoint}/file
{play} remove -e scratch_wipe=true > {work}/wiped 2>&1
"""


@pytest.mark.long
def test_the_role_makes_mounts_verifies_and_gives_back(disk: str, tmp_path: Path) -> None:
    """What deprovision leaves is mounted again by the next provisioning, with its data; scratch_wipe empties it.

    A file system that has left the inventory is unmounted too, and keeps its data whatever scratch_wipe says.
    """
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    for name in ("up", "work"):
        (tmp_path / name).mkdir()
    row = {"device": "/dev/disk/by-id/test-disk", "mountpoint": str(tmp_path / "mnt" / "scratch"), "mode": "0750"}
    given = {"scratch_filesystems": [row], "scratch_touch_busy_hosts": True}
    given["ansible_python_interpreter"] = sys.executable
    book = tmp_path / "play.yml"
    book.write_text(PLAY)
    ansible = [str(BIN / "ansible-playbook"), "-i", "here,", str(book), "-e", json.dumps(given), "--tags"]
    words = {"work": str(tmp_path), "disk": disk, "name": row["device"], "mountpoint": row["mountpoint"]}
    script = STEPS.format(play=shlex.join(ansible), **words)
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    shown = "\n".join(
        (tmp_path / name).read_text()[-2000:] for name in ("first", "removed", "left") if (tmp_path / name).exists()
    )
    assert done.returncode == 0, done.stderr + shown
    label = scratch.label(row["mountpoint"])
    assert (tmp_path / "mounted").read_text().split() == ["ext4", label, "750", "root", "root"]
    added = (tmp_path / "fstab").read_text().splitlines()[1]
    assert added.startswith(f"LABEL={label} {row['mountpoint']} ext4 noatime,nofail,")
    assert "changed=0" in (tmp_path / "second").read_text()
    assert f"mount {row['mountpoint']}" in " ".join((tmp_path / "unmounted").read_text().split())
    assert "scratch_wipe removes it" in " ".join((tmp_path / "removed").read_text().split())
    assert f"/dev/disk/by-label/{label}" in (tmp_path / "left").read_text()
    assert signatures(disk) == ""
