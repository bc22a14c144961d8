"""Ranks in containers that the real pyxis and enroot make on nodes of Slurm: verdicts, ends, restarts and exports."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apptainer_image import NAME, mounts
from tests.pyxis_image import Plugin, made_image, required
from tests.run.conftest import alive
from tests.slurm.cluster import NODES, Cluster
from tests.slurm.conftest import LONG, PATIENCE_S, started
from tests.slurm.image_jobs import SUM, WHERE
from tests.slurm.machine import lacking
from tests.slurm.test_export import submit
from tests.slurm.test_requeue import Training
from tests.unit.guard.test_container_entry import python_ignores
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tests.slurm.conftest import Login

HANGS = """
import time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
print("step 1", flush=True)
if dist.get_rank() == 3:
    time.sleep(600)
dist.all_reduce(value)
"""
RAISES = """
import os, time
if os.environ["RANK"] == "1":
    raise RuntimeError("no such layer")
time.sleep(60)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Plugin:
    """The plugin, and where its containers are."""
    required()
    return Plugin(tmp_path_factory.mktemp("pyxis")).make(NODES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, plugin: Plugin) -> Iterator[Cluster]:
    """Three nodes with the plugin."""
    directory = tmp_path_factory.mktemp("slurm")
    yield from started(directory, lacking(), lines=plugin.lines, programs=plugin.programs)


@pytest.fixture
def image(login: Login, plugin: Plugin, tmp_path: Path) -> Iterator[str]:
    """A .sqsh file, which all nodes of this machine share; afterwards no container and no run is left on a node."""
    yield made_image(tmp_path / "image")
    wait_until(lambda: not login.cluster.run("squeue", "-h").strip(), timeout_s=PATIENCE_S, what="the end of the job")
    wait_until(lambda: not plugin.containers(), timeout_s=PATIENCE_S, what="the end of all containers")
    assert not list(login.play.host_dir.glob("n*/runs/*"))


def job(login: Login, image: str, command: str, **variables: Any) -> list[str | Path]:
    """Arguments of `run` for a job in this image."""
    return login.job(command, runtime="pyxis", image=image, mounts=mounts(), **variables)


def logs(login: Login, name: str) -> list[str]:
    """The output of all ranks."""
    return [path.read_text() for path in sorted((login.run_dir(name) / "logs").glob("rank-*.log"))]


def said(login: Login, name: str) -> list[str]:
    """What each of the four ranks has printed by now, when all have printed something."""

    def texts() -> list[str]:
        return [path.read_text() for path in login.play.host_dir.glob(f"n*/runs/{name}.*/1.*/logs/rank-*.log")]

    wait_until(lambda: len(texts()) == 4 and all(texts()), timeout_s=PATIENCE_S, what="output of each rank")
    return texts()


def test_ranks_of_torch_meet_in_containers_of_two_nodes(login: Login, image: str) -> None:
    login.play.write("src/own.py", SUM)
    command = f"{WHERE} exec {sys.executable} own.py"
    done = login.play(*job(login, image, command, source="src"), "--name", "sum")
    assert done.code == 0, done.err
    expected = [[f"rank {number} of 4 in the image", "sum 10"] for number in range(4)]
    assert [text.splitlines() for text in logs(login, "sum")] == expected
    assert json.loads((login.run_dir("sum") / "plan.json").read_text())["runtime"] == "pyxis"


def test_the_traceback_of_the_first_failing_rank_is_the_verdict(login: Login, image: str) -> None:
    login.play.write("src/own.py", RAISES)
    done = login.play(*job(login, image, f"exec {sys.executable} own.py", source="src"), "--name", "raises")
    assert done.code == 1
    assert "rank 1 on n1 failed first: exit code 1" in done.err
    assert "RuntimeError: no such layer" in done.err


def test_the_first_failing_ranks_code_is_that_of_the_run_and_of_slurm(login: Login, image: str) -> None:
    done = login.play(*job(login, image, "[ $RANK = 2 ] && exit 9; exec sleep 60"), "--name", "fails")
    assert done.code == 9, done.err
    assert "rank 2 on n2 failed first: exit code 9" in done.err
    found = login.slurm_job("fails")
    assert (found["JobState"], found["ExitCode"]) == ("FAILED", "9:0")


def test_stop_tells_each_rank_once_and_leaves_none(login: Login, image: str) -> None:
    command = "trap 'echo told; sleep 1; exit 3' TERM; echo $$; while :; do sleep 0.1; done 2> /dev/null"
    login.play(*job(login, image, command), "--name", "stopped", "-d")
    pids = [int(text) for text in said(login, "stopped")]
    assert all(map(alive, pids))
    inside = login.play("exec", "stopped", "--rank", "2", "--", "sh", "-c", "cat /etc/os-release; echo $RANK in $PWD")
    assert inside.out == f'PRETTY_NAME="{NAME}"\n2 in /\n', inside.err
    login.play("stop", "stopped")
    done = login.play("attach", "stopped")
    assert done.code == 130, done.err
    assert [text.count("told") for text in logs(login, "stopped")] == [1] * 4
    assert not any(map(alive, pids))


def test_scancel_leaves_a_whole_bundle(login: Login, image: str) -> None:
    login.play(*job(login, image, "echo here; exec sleep 300"), "--name", "cancelled", "-d")
    said(login, "cancelled")
    login.cluster.run("scancel", login.allocation("cancelled")["id"])
    done = login.play("attach", "cancelled")
    assert (done.code, "was cancelled" in done.err) == (130, True), done.err
    assert logs(login, "cancelled") == ["here\n"] * 4


def test_a_guard_that_is_killed_takes_its_container_with_it(login: Login, plugin: Plugin, image: str) -> None:
    login.play(*job(login, image, "echo here; exec sleep 300", lease=15), "--name", "headless", "-d")
    said(login, "headless")
    assert [name.split("/")[0] for name in plugin.containers()] == ["n1", "n2"]
    state = next(login.play.host_dir.glob("n2/runs/headless.*/1.*/state.json"))
    os.kill(json.loads(state.read_text())["guard_pid"], signal.SIGKILL)
    done = login.play("attach", "headless")
    assert done.code == 69, done.err


def test_a_failed_rank_is_restarted_in_the_allocation(login: Login, image: str) -> None:
    command = WHERE + "echo attempt $DDP_PLAY_ATTEMPT; [ $DDP_PLAY_ATTEMPT = 2 ] || [ $RANK != 3 ] || exit 7"
    done = login.play(*job(login, image, command, restarts=1, restart_exit_codes=[7]), "--name", "again")
    assert done.code == 0, done.err
    assert logs(login, "again") == [f"rank {number} of 4 in the image\nattempt 2\n" for number in range(4)]
    assert len(login.document("again")["attempts"]) == 2


def test_a_hang_is_told_with_the_line_of_the_rank(login: Login, image: str) -> None:
    login.play.write("src/own.py", HANGS)
    command = f"exec {sys.executable} own.py"
    done = login.play(*job(login, image, command, source="src", idle_timeout=4), "--name", "hangs")
    assert done.code == 124, done.err
    assert "ranks 0, 1, 2 wait in all_reduce at own.py:11; rank 3 is in <module> at own.py:10" in done.err


def test_torchrun_starts_the_ranks_inside(login: Login, image: str) -> None:
    login.play.write("src/own.py", SUM)
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = f"{WHERE} exec python own.py"
    arguments = job(login, image, command, source="src", launcher="torchrun", env=path)
    done = login.play(*arguments, "--name", "elastic")
    assert done.code == 0, done.err
    assert [text.splitlines()[-1] for text in logs(login, "elastic")] == ["sum 10"] * 4


def test_a_stop_while_containers_are_made_leaves_none(login: Login, plugin: Plugin, image: str) -> None:
    slow = Path(image).rename(Path(image).with_name("slow.sqsh"))
    login.play(*job(login, str(slow), "true"), "--name", "early", "-d")
    wait_until(lambda: login.document("early")["status"] == "preparing", timeout_s=PATIENCE_S, what="the preparation")
    errors = login.play.host_dir.glob
    wait_until(lambda: len(list(errors("n*/runs/early.*/1.*/container.err"))) == 2, timeout_s=PATIENCE_S, what="srun")
    began = time.monotonic()
    login.play("stop", "early")
    done = login.play("attach", "early")
    assert done.code == 130, done.err
    assert time.monotonic() - began < 40
    assert not plugin.containers()


@LONG
def test_a_requeued_job_has_new_containers(login: Login, image: str) -> None:
    training = Training(
        login,
        "later",
        runtime="pyxis",
        image=image,
        mounts=[*mounts(), str(login.play.cwd) + ":" + str(login.play.cwd)],
    )
    job_id = training.start()
    login.cluster.run("scontrol", "requeue", job_id)
    training.starts_soon(job_id)
    assert len(training.ended()["attempts"]) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("which", "words", "remedy"),
    [
        ("/no/such.sqsh", "No such file or directory: /no/such.sqsh", "correct ddp_job_image: a .sqsh file that n"),
        (
            "own.invalid:5000/team/train:2",
            "own.invalid:5000#team/train:2: curl: (5) Could not resolve proxy: proxy.invalid",
            "or make a .sqsh file with enroot import",
        ),
    ],
)
def test_an_image_that_does_not_exist(login: Login, image: str, which: str, words: str, remedy: str) -> None:
    assert image
    login.play.environment["https_proxy"] = "http://kim:s3cret@proxy.invalid:3128"
    done = login.play(*job(login, which, "true"), "--name", "absent")
    assert done.code == 69, done.err
    assert words in done.err
    assert remedy in done.err
    assert "s3cret" not in done.err + (login.run_dir("absent") / "plan.json").read_text()


def test_variables_secrets_and_artifacts_are_those_of_any_job(login: Login, image: str) -> None:
    login.play.write("src/own.txt", "of the source")
    says = 'echo "$GREETING" $FROM_IMAGE "$(cat "$KEY_FILE")" ${HOME##*/}'
    foreign = "env | grep -c -e ^SLURM_ -e ^LC_CTYPE=; grep SigIgn /proc/self/status"
    command = f"{says}; echo $RANK > made-$RANK; cat own.txt; {foreign}"
    values = {"env": {"GREETING": 'say "hi" $HOME'}, "secrets": {"KEY": "s3cret"}, "source": "src"}
    done = login.play(*job(login, image, f"{command} || true", **values), "--name", "whole")
    assert done.code == 0, done.err
    said_first, of_source, ignored = logs(login, "whole")[3].splitlines()
    assert (said_first, of_source) == ('say "hi" $HOME yes s3cret rank-3', "of the source0")
    assert not int(ignored.split()[1], 16) & python_ignores()
    assert sorted(path.name for path in (login.run_dir("whole") / "artifacts").rglob("made-*")) == [
        f"made-{number}" for number in range(4)
    ]


def test_a_login_at_a_registry_is_refused_with_where_enroot_reads_it(login: Login) -> None:
    given = {"registry_username": "kim", "registry_password": "s3cret"}
    done = login.play(*job(login, "site:5000/train", "true", **given))
    assert (done.code, "s3cret" in done.err) == (64, False)
    assert "~/.config/enroot/.credentials" in done.err


def test_an_exported_script_makes_the_same_container(login: Login, image: str) -> None:
    command = [
        "sh",
        "-c",
        WHERE + 'echo "$GREETING $1"; [ $RANK = 2 ] && sleep 1 && exit 9; exec sleep 60',
        "x",
        "{rank}/4",
    ]
    found, results = submit(
        login, command=command, runtime="pyxis", image=image, mounts=mounts(), source=str(login.play.cwd),
        env={"GREETING": 'say "hi" $HOME'},
    )  # fmt: skip
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert (found["JobState"], found["ExitCode"]) == ("FAILED", "9:0"), output
    assert (results / "rank-3.log").read_text().startswith('rank 3 of 4 in the image\nsay "hi" $HOME 3/4\n')
    assert "rank 2 on n2 failed first: exit code 9" in output


def test_an_exported_script_says_that_its_image_is_not_there(login: Login, image: str) -> None:
    assert image
    found, results = submit(
        login, command=["true"], runtime="pyxis", image="/no/such.sqsh", workdir="/", source=str(login.play.cwd)
    )
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert (found["JobState"], found["ExitCode"]) == ("FAILED", "69:0"), output
    assert "No such file or directory: /no/such.sqsh" in output
    assert not list(results.glob("rank-*"))
