"""A process of another user that poses as a guard, looked at by a program that runs as root."""

from __future__ import annotations

import pwd
import secrets
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import run_id_conflicts
from ddp_play.guard.host_activity import HostActivity
from ddp_play.guard.running_guards import guards
from tests.unit.guard.hostile import NOBODY, as_nobody, in_time, needs_root

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_root


def guard_of_a_neighbour(tmp_path: Path, key: str) -> subprocess.Popen[bytes]:
    """A process of another user whose command line is that of a guard; its attempt is at `tmp_path`/evil."""
    evil = tmp_path / "evil" / key / "1.h1"
    evil.mkdir(parents=True)
    evil.chmod(0o777)
    return subprocess.Popen(
        ["sh", "-c", "read line", "x.pyc", "guard", str(evil)],
        stdin=subprocess.PIPE,
        cwd=evil,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )


@pytest.mark.parametrize("put", ["mkfifo spec.json", "ln -s {shadow} spec.json", "mkdir spec.json"])
def test_a_process_that_poses_as_a_guard_neither_blocks_nor_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    """Its directory is whatever its command line says."""
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.base_dir", lambda: tmp_path / "state")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.bases", lambda: [tmp_path / "state"])
    shadow = tmp_path / "shadow.json"
    shadow.write_text('{"owner": "a secret of root", "created": 1}')
    tmp_path.chmod(0o711)
    run_id, token = f"eve-{secrets.token_hex(4)}", secrets.token_hex(8)  # other tests look for runs of one name
    with guard_of_a_neighbour(tmp_path, f"{run_id}.{token}") as process:
        try:
            evil = tmp_path / "evil" / f"{run_id}.{token}" / "1.h1"
            as_nobody(evil, put.format(shadow=shadow))
            deadline = time.monotonic() + 10
            while process.pid not in guards() and time.monotonic() < deadline:
                time.sleep(0.02)
            found = in_time(lambda: run_id_conflicts.find(run_id, "0123456789abcdef", []))
            assert [(row.alive, row.owner) for row in found] == [(True, pwd.getpwuid(NOBODY).pw_name)]
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["mkfifo {name}", "ln -s {shadow} {name}", "mkdir {name}", "truncate -s 1G {name}"])
def test_top_as_root_neither_blocks_nor_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It reads the state of every run on the host, whatever the run's user made of it."""
    shadow = tmp_path / "shadow.json"
    shadow.write_text('{"owner": "a secret of root", "ranks": {"0": {"state": "a secret"}}}')
    tmp_path.chmod(0o711)
    run_id, token = f"eve-{secrets.token_hex(4)}", secrets.token_hex(8)  # other tests look for runs of one name
    with guard_of_a_neighbour(tmp_path, f"{run_id}.{token}") as process:
        try:
            evil = tmp_path / "evil" / f"{run_id}.{token}" / "1.h1"
            for name in ("spec.json", "state.json"):
                as_nobody(evil, kind.format(name=name, shadow=shadow))
            deadline = time.monotonic() + 10
            while process.pid not in guards() and time.monotonic() < deadline:
                time.sleep(0.02)
            found = {process.pid: guards()[process.pid]}  # not the guards of other runs on this machine
            monkeypatch.setattr("ddp_play.guard.host_activity.guards", lambda: found)
            (row,) = in_time(lambda: HostActivity().read()["runs"])
            assert (row["owner"], row["ranks"], row["phase"]) == (pwd.getpwuid(NOBODY).pw_name, {}, "")
        finally:
            process.kill()
