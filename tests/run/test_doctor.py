"""`ddp-play doctor` on this machine, with homes, keys, locales and disks that are wrong."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.run.conftest import Done, Play


def by_check(done: Done) -> dict[str, Any]:
    return {row["check"]: row for row in done.json["findings"]}


def test_wrong_modes_and_a_locale_that_is_not_installed(play: Play) -> None:
    play.home.mkdir(mode=0o777)
    play.home.chmod(0o777)
    play.write(".ssh/id_rsa", "key").chmod(0o644)
    play.environment["LC_ALL"] = "xx_XX.UTF-8"
    done = play("doctor", "--json")
    found = by_check(done)
    assert (done.code, done.json["exit_class"]) == (1, "check_failed")
    assert found["locale"]["status"] == found["state directory"]["status"] == found["ssh keys"]["status"] == "fail"
    assert found["state directory"]["command"] == f"chmod 700 {play.home}"
    play.environment["LC_ALL"] = "C.UTF-8"
    for command in (found["state directory"]["command"], found["ssh keys"]["command"]):
        subprocess.run(command.split(), check=True)
    again = by_check(play("doctor", "--json"))
    assert again["locale"]["status"] == again["state directory"]["status"] == again["ssh keys"]["status"] == "ok"


def test_nothing_is_created(play: Play) -> None:
    before = sorted(play.cwd.rglob("*"))
    assert "state directory" in play("doctor").out
    assert sorted(play.cwd.rglob("*")) == before
    assert not play.home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small tmpfs")
def test_a_full_disk(play: Play) -> None:
    play.home.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(play.home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts here")
    try:
        (play.home / "full").write_bytes(b"x" * 1024 * 1024)
        done = play("doctor", "--json")
        found = by_check(done)
    finally:
        subprocess.run(["umount", str(play.home)], check=True)
    assert done.code == 1
    assert "No space left" in found["state directory"]["value"]
    assert (found["disk space"]["status"], found["disk space"]["value"][:10]) == ("fail", "0 MiB free")
