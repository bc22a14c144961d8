"""The state directory of a user whose home is on the network, with the kernel's own FUSE."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_play.guard.protocol import FrameReader, encode
from ddp_play.run import host_program
from tests.open_directory import open_directory

__all__ = ["open_directory"]

FUSE_HOME = Path(__file__).parent / "fuse_home.py"
KIM, NEIGHBOUR = 61001, 61002


def in_fuse_home(home: Path, script: str) -> subprocess.CompletedProcess[bytes]:
    """The answer to the order `facts`, for an ordinary user whose home is on FUSE; root runs `script` before."""
    command = host_program.shell_command("/usr/bin/python3", "channel")
    as_kim = (
        f"{script}\nexec setpriv --reuid {KIM} --regid {KIM} --clear-groups env -i PATH=$PATH $VARIABLES HOME={home} "
    )
    return subprocess.run(
        [sys.executable, str(FUSE_HOME), str(home), "sh", "-c", as_kim + '/bin/sh -c "$0"', command],
        input=host_program.preamble() + encode("facts", wanted={"shared_dir": str(home)}),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def home(open_directory: Path) -> Path:
    """Where the file system of the test's home is mounted."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists() or shutil.which("setpriv") is None:
        pytest.skip("needs root, /dev/fuse and setpriv")
    made = open_directory / "home"
    made.mkdir()
    if subprocess.run([sys.executable, str(FUSE_HOME), str(made), "true"], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return made


@pytest.mark.parametrize("squatted", [False, True])
def test_a_home_on_the_network_is_left_for_a_directory_of_the_user(home: Path, squatted: bool) -> None:
    done = in_fuse_home(home, f"install -d -o {NEIGHBOUR} /var/tmp/ddp-play-{KIM}" if squatted else "")
    assert done.returncode == 0, done.stderr.decode()
    ((_, payload),) = FrameReader(expect_magic=True).feed(done.stdout)
    facts = json.loads(payload)
    found = facts["state_dir"]
    assert re.fullmatch(rf"/var/tmp/ddp-play-{KIM}" + (r"\.\w+" if squatted else ""), found["path"])
    assert found["fstype"] == "tmpfs"
    assert found["reason"] == f"{home}/.local/state/ddp-play/host is on fuse.sshfs (nfs1:/home), which is not local"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("VARIABLES=DDP_PLAY_STATE_DIR={home}/mine", "ddp_state_dir is {home}/mine, which is on fuse.sshfs"),
        ("mount --bind {home} /var/tmp", "/var/tmp cannot be used (fuse.sshfs (nfs1:/home))"),
        ("chmod 777 /var/tmp", "/var/tmp cannot be used"),
    ],
    ids=["named", "temporary files on the network too", "temporary files without the sticky bit"],
)
def test_no_local_directory_for_a_user_of_the_network(home: Path, script: str, words: str) -> None:
    done = in_fuse_home(home, script.format(home=home))
    assert done.returncode == 1
    assert words.format(home=home) in done.stderr.decode()
    assert "set ddp_state_dir for the host to a directory on a local disk" in done.stderr.decode()
