"""Role nfs_client on a site that mounts the directory already: what it replaces returns, as line and as mount.

As root, in a mount namespace of the test's own. `mount.nfs` there mounts a tmpfs and `findmnt` reports it as NFS, so
no kernel with NFS is needed; the calls of mount and umount are those of the role.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.runner

BIN = Path(sys.executable).parent
SERVER = "127.0.0.9"  # an address that the role does not take for the host's own
PLAY = """
- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: ddp.play.nfs_client}
      tags: [never, main]
    - ansible.builtin.import_role: {name: ddp.play.nfs_client, tasks_from: remove}
      tags: [never, remove]
    - ansible.builtin.import_role: {name: ddp.play.nfs_client, tasks_from: verify}
      tags: [never, verify]
"""
# A filer that refuses what the file `refuses` names, as an option or a source.
MOUNT_NFS = """#!/bin/sh
source=$1 target=$2; shift 2
while [ $# -gt 0 ]; do [ "$1" = -o ] && options=$2; shift; done
if [ -e {work}/refuses ] && grep -qwF -f {work}/refuses <<END
$source $options
END
then echo "mount.nfs: Protocol not supported for $target" >&2; exit 32; fi
/usr/bin/mount -i -t tmpfs -o size=1m "$source" "$target" &&
echo "$options" > "{work}/options$(echo "$target" | tr / _)"
"""
FINDMNT = """#!{python}
import json, os, pathlib, sys
if "--json" not in sys.argv:
    os.execv("/usr/bin/findmnt", sys.argv)
rows = [line.split() for line in open("/proc/self/mounts")]
rows = [row for row in rows if row[2] == "tmpfs" and row[0].startswith("{server}:")]
kept = {{row[1]: pathlib.Path("{work}/options" + row[1].replace("/", "_")).read_text().strip() for row in rows}}
names = ("target", "source", "fstype", "options")
found = [dict(zip(names, (row[1], row[0], "nfs4", kept[row[1]]))) for row in rows]
print(json.dumps({{"filesystems": found}}) if found else "")
"""
SITE = f"{SERVER}:/data   {{mountpoint}} nfs4\tvers=4.1,hard 0 0  # the site's\n"
BEFORE = """
set -eu
mount --make-rprivate /
for folder in etc usr/sbin; do
  mkdir -p {work}/up/$folder {work}/work/$folder
  mount -t overlay -o lowerdir=/$folder,upperdir={work}/up/$folder,workdir={work}/work/$folder overlay /$folder
done
cp {work}/mount.nfs /usr/sbin/mount.nfs; cp {work}/mount.nfs /usr/sbin/mount.nfs4
mkdir -p {mountpoint}; cp {work}/site /etc/fstab; mount {mountpoint}; echo theirs > {mountpoint}/theirs
"""


class Host:
    """A machine whose fstab mounts the site's directory."""

    def __init__(self, work: Path, port: int) -> None:
        """The programs and the line of the site."""
        self.work, self.mountpoint = work, work / "data"
        self.words = {"work": str(work), "mountpoint": str(self.mountpoint), "server": SERVER, "python": sys.executable}
        (work / "bin").mkdir()
        for path, text in ((work / "mount.nfs", MOUNT_NFS), (work / "bin" / "findmnt", FINDMNT)):
            path.write_text(text.format(**self.words))
            path.chmod(0o755)
        self.site = "tmpfs /none tmpfs noauto 0 0\n" + SITE.format(**self.words)
        (work / "site").write_text(self.site)
        (work / "play.yml").write_text(PLAY)
        self.given: dict[str, Any] = {
            "nfs_client_mounts": [{"server": SERVER, "path": "/data", "mountpoint": str(self.mountpoint)}],
            "nfs_client_server_port": port,
            "nfs_client_touch_busy_hosts": True,
            "ansible_python_interpreter": sys.executable,
            "__nfs_client_kernel": True,
            "__nfs_client_to_install": [],
        }

    def steps(self, script: str) -> str:
        """What this script prints in the namespace, where `main NAME` and the others write a file of that name."""
        ansible = [str(BIN / "ansible-playbook"), "-i", "here,", str(self.work / "play.yml"), "-e"]
        play = shlex.join([*ansible, json.dumps(self.given), "--tags"])
        body = f'name=$1; shift; {play} $verb "$@" > {self.work}/"$name" 2>&1'
        verbs = "".join(f"{verb}() {{ verb={verb}; {body}; }}\n" for verb in ("main", "remove", "verify"))
        whole = verbs + BEFORE.format(**self.words) + script.format(**self.words)
        environment = {**os.environ, "PATH": f"{self.work}/bin:{os.environ['PATH']}"}
        argv = ["unshare", "--mount", "sh", "-c", whole]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
        said = "".join(f"== {name}\n{self.said(name)[-3000:]}\n" for name in ("first", "second", "removed"))
        assert done.returncode == 0, done.stderr + said
        return done.stdout

    def said(self, name: str) -> str:
        """What a play printed, in one line."""
        path = self.work / name
        return " ".join(path.read_text().split()) if path.exists() else ""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("a mount namespace needs root and unshare")
    with socket.create_server((SERVER, 0)) as server:
        yield Host(tmp_path, server.getsockname()[1])


def test_verify_names_the_files_that_are_missing_or_differ(host: Host) -> None:
    conf, idmap = "/etc/nfs.conf.d/ddp-play-client.conf", "/etc/idmapd.conf.d/ddp-play-client.conf"
    host.given["nfs_client_idmap_domain"] = "site.example"
    host.steps(f"main first; verify second; echo >> {conf}; rm {idmap}; ! verify edited\n")
    assert f"files that are missing: {idmap}; files that differ: {conf}. To inspect" in host.said("edited")


# What is mounted: the number of mounts, the source and the options.
SHOW = "grep -c ' {mountpoint} ' /proc/self/mounts; findmnt -no SOURCE {mountpoint}; cat {work}/options*\n"
THEIRS = ["1", f"{SERVER}:/data", "rw,vers=4.1,hard"]


@pytest.mark.long
def test_the_line_of_the_site_returns_after_a_first_run_that_failed_at_the_mount(host: Host) -> None:
    script = """
    echo vers=4.2 > {work}/refuses; ! main first
    cmp /etc/fstab {work}/site; test ! -e /etc/ddp-play/record.json || ! grep fstab /etc/ddp-play/record.json
    rm {work}/refuses; main second; ! cmp -s /etc/fstab {work}/site
    remove removed; cat /etc/fstab
    """
    assert host.steps(script) == host.site


@pytest.mark.long
def test_removal_mounts_the_file_system_of_the_site_again(host: Host) -> None:
    assert host.steps("main first; remove removed; cmp /etc/fstab {work}/site\n" + SHOW).split() == THEIRS
    assert "left on here: data on the server of" in host.said("removed")


@pytest.mark.long
def test_a_removal_goes_on_if_the_server_of_the_site_is_away_and_names_the_command(host: Host) -> None:
    script = """
    main first; echo vers=4.1 > {work}/refuses
    remove removed; cmp /etc/fstab {work}/site; ! grep ' {mountpoint} ' /proc/self/mounts
    test ! -e /etc/nfs.conf.d/ddp-play-client.conf
    """
    host.steps(script)
    said = host.said("removed")
    assert f"not mounted again: mount {host.mountpoint} (Error mounting {host.mountpoint}" in said
    assert "Protocol not supported" in said


def test_the_mount_of_the_site_is_back_if_the_new_one_fails(host: Host) -> None:
    script = "echo vers=4.2 > {work}/refuses; ! main first; cmp /etc/fstab {work}/site\n"
    assert host.steps(script + SHOW).split() == THEIRS
    said = host.said("first")
    assert "Protocol not supported" in said
    assert f"What was mounted on {host.mountpoint} before is mounted again" in said


@pytest.mark.long
def test_check_mode_passes_where_the_mount_of_another_server_would_be_replaced(host: Host) -> None:
    host.given["nfs_client_mounts"][0]["path"] = "/other"
    assert host.steps("main first --check; cmp /etc/fstab {work}/site\n" + SHOW).split() == THEIRS


@pytest.mark.long
def test_a_mount_that_cannot_return_is_named_with_its_command(host: Host) -> None:
    host.steps("echo /data > {work}/refuses; ! main first; cmp /etc/fstab {work}/site\n")
    said = host.said("first")
    assert f"not mounted again: mount -t nfs4 -o rw,vers=4.1,hard {SERVER}:/data {host.mountpoint}" in said
