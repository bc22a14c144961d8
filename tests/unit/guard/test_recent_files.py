"""Files in directories that systemd-tmpfiles cleans stay young as long as the run lives."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddp_play.guard import recent_files
from ddp_play.guard.daemon import Guard
from ddp_play.guard.recent_files import RecentFiles
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard.test_daemon import guard
from tests.waiting import wait_until

LONG_AGO = 11 * 86400.0


def old(path: Path) -> float:
    """Age of a file in seconds, by the newer of its times."""
    found = path.lstat()
    return time.time() - max(found.st_mtime, found.st_atime)


def test_only_temporary_files_are_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_files, "AGED", (str(tmp_path / "tmp"),))
    for name in ("tmp", "shared", "victim"):
        (tmp_path / name).mkdir()
    paths = [tmp_path / "tmp" / "rendezvous-1", tmp_path / "shared" / "rendezvous-1", tmp_path / "victim" / "file"]
    for path in paths:
        path.touch()
        os.utime(path, (time.time() - LONG_AGO,) * 2)
    (tmp_path / "tmp" / "link").symlink_to(paths[2])
    names = [str(tmp_path / "tmp" / "link"), str(tmp_path / "tmp" / "gone"), *map(str, paths[:2])]
    files = RecentFiles(names)
    files.renew()
    assert [old(path) < 60 for path in paths] == [True, False, False], "what a link leads to stays as it is"
    os.utime(paths[0], (time.time() - LONG_AGO,) * 2)
    files.renew()
    assert old(paths[0]) > 60, "once in an hour is enough"


def test_the_guard_renews_the_rendezvous_file_of_a_machine(tmp_path: Path) -> None:
    """Hosts that are one machine meet in a file in /tmp, and a FileStore needs it as long as the run lives."""
    place = HostRun(tmp_path / "1.h1")
    place.root.mkdir()
    owned = ["/tmp/ddp-play-rendezvous-night-1", "/dev/shm/mpich_shm_1_0", str(Path("/shared/.ddp-play/night/file"))]
    write_json(place.spec, {"ranks": [], "limits": {}, "owned_paths": owned})
    assert Guard(place).files.paths == [Path(owned[0])]


def test_a_directory_is_locked_as_systemd_tmpfiles_looks_at_it_and_no_longer(tmp_path: Path) -> None:
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with recent_files.not_aged(tmp_path), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), recent_files.not_aged(tmp_path / "file"):
        pytest.fail("a file was locked")


def test_a_file_system_without_locks_stops_no_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    with recent_files.not_aged(tmp_path):
        pass


def test_files_are_renewed_again_after_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, touched = [5.0], list[Path]()
    monkeypatch.setattr(recent_files, "AGED", (str(tmp_path),))
    monkeypatch.setattr(recent_files, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(recent_files, "locate", lambda path: path)
    monkeypatch.setattr(recent_files, "touch", touched.append)
    files = RecentFiles([str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path)])
    for moment, times in ((5.0, 1), (3604.9, 1), (3605.1, 2), (3606.0, 2), (7206.0, 3)):
        now[0] = moment
        files.renew()
        assert touched == [tmp_path / "a", tmp_path / "b"] * times


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("systemd-tmpfiles"), reason="needs root and systemd-tmpfiles")
def test_the_directory_of_a_living_run_is_not_aged(tmp_path: Path) -> None:
    """It may be in /var/tmp, where 30 days are the limit: here it is one second."""
    aged = tmp_path / "var-tmp"
    aged.mkdir()
    (tmp_path / "conf").write_text(f"d {aged} 0755 root root 1s\n")

    def clean() -> bool:
        command = ["systemd-tmpfiles", "--clean", str(tmp_path / "conf")]
        subprocess.run(command, check=True, capture_output=True, timeout=30)
        return not (aged / "decoy").exists()

    with guard(aged / "ddp-play-0" / "runs" / "night.0123456789abcdef", "sleep 600") as (place, process):
        (aged / "decoy").mkdir()
        (aged / "decoy" / "younger").touch()
        wait_until(clean)
        assert place.spec.exists()
        process.terminate()
        process.wait(20)
    wait_until(lambda: clean() and not place.root.exists())
