"""State directories that take nothing: on a read-only disk, on a full one, and where there can be no directory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Done, Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]

READ_ONLY = "mount --bind {home} {home} && mount -o remount,bind,ro {home}"
SMALL = "mkdir -p {home} && mount -t tmpfs -o size={kib}k tmpfs {home}"


def mounted(play: Play, script: str, *words: str | Path) -> Done:
    """ddp-play in a mount namespace of its own, after this script."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("mounts of its own need root")
    program = Path(sys.executable).with_name("ddp-play")
    command = shlex.join([str(program), *map(str, words)])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{script} || exit 99; exec {command}"],
        cwd=play.cwd, env=play.env(), capture_output=True, text=True, check=False, timeout=90, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode != 99, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def site(play: Play) -> Play:
    """A state directory with one run that has ended."""
    done = play("run", play.job({"command": ["echo", "hello"], "check": "none"}), "-i", LOCAL, "--name", "night")
    assert done.code == 0, done.err
    return play


# What each of them shows.
READERS = {
    "ps": "night",
    "results night": "succeeded",
    "logs night --rank 0": "hello",
    "plan --of night": "WORLD_SIZE",
    "plan job.yml -i LOCAL": "WORLD_SIZE",
    "compare night night": "night",
    "report night --json": "night",
    "inventory check -i LOCAL": "no errors",
    "ps -i LOCAL": "on the hosts",
    "--version": "ddp-play",
}


def test_verbs_that_read_work_on_a_read_only_disk(site: Play) -> None:
    script = READ_ONLY.format(home=site.home)
    for words, shown in READERS.items():
        done = mounted(site, script, *words.replace("LOCAL", str(LOCAL)).split())
        assert (done.code, shown in done.out) == (0, True), (words, done.out, done.err)


def test_what_writes_is_refused_in_one_line_and_doctor_names_the_directory(site: Play) -> None:
    for words in ("run job.yml", "run -d job.yml", "verify"):
        done = mounted(site, READ_ONLY.format(home=site.home), *words.split(), "-i", LOCAL)
        assert done.code == 64, (words, done.err)
        assert f"error: ddp-play cannot keep runs and results in {site.home}" in done.err
        assert "export DDP_PLAY_HOME=DIRECTORY" in done.err
    assert len(site.runs()) == 1
    done = mounted(site, READ_ONLY.format(home=site.home), "doctor")
    assert done.code == 1, done.err
    assert str(site.home) in done.out
    assert "export DDP_PLAY_HOME=DIR" in done.out


@pytest.mark.parametrize("kib", [100, 4000])
def test_a_run_is_not_started_on_a_full_disk(play: Play, kib: int) -> None:
    job = play.job({"command": ["touch", str(play.cwd / "ran")]})
    done = mounted(play, SMALL.format(home=play.home, kib=kib), "run", job, "-i", LOCAL)
    assert done.code == 70, done.err
    assert f"this machine has no space left for {play.home}" in done.err
    assert "nothing was started" in done.err
    assert not (play.cwd / "ran").exists()


def test_a_directory_that_cannot_be_made(play: Play) -> None:
    play.environment["DDP_PLAY_HOME"] = "/proc/none/state"
    done = play("run", play.job({"command": ["true"]}), "-i", LOCAL)
    assert done.code == 64, done.err
    assert "ddp-play cannot keep runs and results in /proc/none/state" in done.err
    assert play("plan", play.cwd / "job.yml", "-i", LOCAL).code == 0


@pytest.mark.parametrize("words", ["plan job.yml", pytest.param("verify", marks=pytest.mark.long)])
def test_the_directory_is_the_users_alone_whatever_makes_it(play: Play, words: str) -> None:
    play.job({"command": ["true"], "check": "none"})
    play(*words.split(), "-i", LOCAL)
    assert play.home.stat().st_mode & 0o777 == 0o700
