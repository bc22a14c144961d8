"""Whole runs of ranks that the real Apptainer starts: verdicts, signals, variables, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.apptainer_image import NAME, made_image, mounts
from tests.open_directory import open_directory
from tests.run import ssh_server
from tests.run.conftest import LOCAL, Play, alive, living
from tests.waiting import wait_until

if TYPE_CHECKING:
    pass

__all__ = ["open_directory"]
pytestmark = [pytest.mark.dist, pytest.mark.runner]

ODD = "a\"b $HOME `id` \\ $(id) 'c'\n  end"
# A line for each signal, without a word of the shell's own.
TOLD = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _frame: os.write(1, b"told %d\\n" % number))
os.write(1, b"ready\\n")
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    time.sleep(0.1)
"""
SUM = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("sum", int(value), "in", open("/etc/os-release").read().split('"')[1], flush=True)
dist.destroy_process_group()
"""
HANGS = """
import os, time
def never_ends():
    time.sleep(600)
print("ready", flush=True)
never_ends()
"""


@pytest.fixture
def image(tmp_path: Path) -> str:
    """A sandbox directory."""
    return made_image(tmp_path / "image")


def arguments(play: Play, image: str, command: list[str], **variables: Any) -> list[str | Path]:
    """Arguments of `run` for a job of two ranks in the image."""
    values = {"image": image, "mounts": mounts(), "command": command, "ranks_per_host": 2, "gpus": "none", **variables}
    return ["run", play.job(values), "-i", LOCAL, "--name", variables.get("name", "run")]


def logs(play: Play) -> list[str]:
    return [(play.newest() / "logs" / f"rank-{number}.log").read_text() for number in (0, 1)]


def all_say(play: Play, word: str) -> None:
    directory = play.host_dir / "runs"

    def said() -> bool:
        found = [path.read_text() for path in directory.glob("run.*/1.localhost/logs/rank-*.log")]
        return len(found) == 2 and all(word in text for text in found)

    wait_until(said, timeout_s=60, what=f"{word} in both logs")


def pids_of(play: Play) -> list[int]:
    """Pids of both ranks, which are those of the host, from their logs."""
    all_say(play, "ready ")
    directory = play.host_dir / "runs"
    paths = sorted(directory.glob("run.*/1.localhost/logs/rank-*.log"))
    found = [int(path.read_text().split()[1]) for path in paths]
    assert all(map(alive, found))
    return found


def test_ranks_get_their_variables_exactly_and_no_word_holds_a_secret(play: Play, image: str) -> None:
    show = (
        'printf "%s|" "$RANK" "$PWD" "$ODD" "$TOKEN" "$(cat "$FILED_FILE")" "$1"; grep -q "'
        + NAME
        + '" /etc/os-release'
    )
    secret = "not-to-be-seen"
    values = {"env": {"ODD": ODD, "TOKEN": secret}, "secrets": {"FILED": "filed"}, "workdir": "/var/tmp"}
    done = play(*arguments(play, image, ["sh", "-c", show, "x", "a b"], **values))
    assert done.code == 0, done.err
    assert logs(play) == [f"{rank}|/var/tmp|{ODD}|{secret}|filed|a b|" for rank in (0, 1)]
    plan = (play.newest() / "plan.json").read_text()
    assert (secret in plan, json.loads(plan)["runtime"]) == (False, "apptainer")
    assert not play.left_on_host() or play.left_on_host() == [str(play.host_dir / "runs")]


def test_the_first_failing_ranks_own_code_is_that_of_the_run(play: Play, image: str) -> None:
    done = play(*arguments(play, image, ["sh", "-c", "[ $RANK = 1 ] && exit 9; exec sleep 600"]))
    assert done.code == 9, done.err
    assert "rank 1 on localhost failed first: exit code 9" in done.err
    assert not living(str(play.host_dir))


@pytest.mark.parametrize("launcher", ["ranks", "torchrun"])
def test_ranks_of_torch_meet_inside_the_image(play: Play, image: str, launcher: str) -> None:
    play.write("src/own.py", SUM)
    done = play(*arguments(play, image, [sys.executable, "own.py"], source="src", launcher=launcher))
    assert done.code == 0, done.err
    assert [text.splitlines()[-1] for text in logs(play)] == [f"sum 3 in {NAME}"] * 2


def test_a_signal_reaches_a_rank_once(play: Play, image: str) -> None:
    play.write("src/own.py", TOLD)
    values = {"source": "src", "max_duration": 8, "warn_before": 4, "grace": 3}
    child = play.start(*arguments(play, image, [sys.executable, "own.py", "600"], **values))
    all_say(play, "ready")
    child.communicate(timeout=90)
    assert child.returncode == 124
    assert logs(play) == [f"ready\ntold {int(signal.SIGUSR1)}\ntold {int(signal.SIGTERM)}\n"] * 2
    assert not living(str(play.host_dir))


def test_a_rank_that_is_killed_ends_the_run_and_leaves_nothing(play: Play, image: str) -> None:
    child = play.start(*arguments(play, image, ["sh", "-c", "echo ready $$; exec sleep 600"]))
    pids = pids_of(play)
    os.kill(pids[1], signal.SIGKILL)
    _, err = child.communicate(timeout=90)
    assert child.returncode == 137, err
    assert "rank 1 on localhost failed first" in err
    assert "killed from outside" in err
    assert [pid for pid in pids if alive(pid)] == []


def test_without_its_guard_nothing_is_left(play: Play, image: str) -> None:
    child = play.start(*arguments(play, image, ["sh", "-c", "echo ready $$; exec sleep 600"]))
    pids = pids_of(play)
    state = json.loads(next((play.host_dir / "runs").glob("run.*/1.localhost/state.json")).read_text())
    os.kill(int(state["guard_pid"]), signal.SIGKILL)
    _, err = child.communicate(timeout=90)
    assert child.returncode not in (0, None), err
    wait_until(lambda: not any(map(alive, pids)), timeout_s=30, what="the end of all ranks")


def test_a_hang_shows_the_line_of_the_script_in_the_image(play: Play, image: str) -> None:
    play.write("src/own.py", HANGS)
    done = play(*arguments(play, image, [sys.executable, "own.py"], source="src", idle_timeout=3, grace=1))
    assert done.code == 124, done.err
    assert all("never_ends" in text for text in logs(play)), logs(play)
    assert not living(str(play.host_dir))


def test_what_cannot_be_started_is_refused_before_the_start(play: Play, image: str) -> None:
    no_image = play(*arguments(play, "/nowhere/train.sif", ["true"], name="image"))
    assert (no_image.code, "image /nowhere/train.sif does not exist" in no_image.err) == (69, True), no_image.err
    no_mount = play(*arguments(play, image, ["true"], mounts=[*mounts(), "/nowhere:/data"], name="mount"))
    assert no_mount.code == 69, no_mount.err
    assert "/nowhere" in no_mount.err
    no_directory = play(*arguments(play, image, ["true"], workdir="/nowhere", name="directory"))
    assert (no_directory.code, "ddp_job_workdir is a directory of the image" in no_directory.err) == (69, True)


@pytest.fixture
def open_image(image: str, open_directory: Path) -> str:
    """The image where every user finds it."""
    return str(shutil.copytree(image, open_directory / "root", symlinks=True))


def test_root_starts_ranks_for_another_user(play: Play, open_image: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts ranks for others")
    for path in (play.cwd.parent, *play.cwd.parent.parents):
        if path.owner() == "root" and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)  # of pytest, which lets nobody in
    done = play(*arguments(play, open_image, ["sh", "-c", "id -u; touch $HOME/mine"], user="65534:65534"))
    assert done.code == 0, done.err
    assert logs(play) == ["65534\n"] * 2


def test_a_user_without_rights_runs_an_image_over_ssh(play: Play, open_image: str, tmp_path: Path) -> None:
    if reason := ssh_server.why_not():
        pytest.skip(reason)
    directory = Path(shutil.which("apptainer") or "").parent
    settings = f"SetEnv PATH={directory}:/usr/bin:/bin\n"
    with ssh_server.running(tmp_path / "server", [ssh_server.User("kim", "/bin/bash")], settings) as server:
        hosts = {"h1": server.host("kim")}
        inventory = play.write("hosts.json", json.dumps({"all": {"children": {"ranks": {"hosts": hosts}}}}))
        command = [
            "sh",
            "-c",
            "echo $(id -un) in $(cut -d '\"' -f 2 /etc/os-release); [ $RANK = 1 ] && exit 9; sleep 600",
        ]
        values = {"image": open_image, "mounts": mounts(), "command": command, "ranks_per_host": 2, "gpus": "none"}
        done = play("run", play.job(values), "-i", inventory, "--name", "run")
        assert (done.code, "rank 1 on h1 failed first: exit code 9" in done.err) == (9, True), done.err
        assert logs(play) == [f"kim in {NAME}\n"] * 2
        assert [path for path in server.left_behind("kim") if "run." in path] == []
        assert not living("APPTAINERENV_DDP_PLAY_RUN_ID=run")
