"""Jobs as one sbatch script: what a reader finds in it, and that a shell takes every word as it was meant."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.slurm_export import SHELL_NAMES, export_script, shell_command
from ddp_play.errors import UsageError
from ddp_play.planning.job import parse_job
from ddp_play.planning.job_values import PLACEHOLDERS

if TYPE_CHECKING:
    from pathlib import Path


def exported(**values: Any) -> str:
    return export_script(parse_job({"command": ["python", "train.py"], "hosts": 4, **values}), "train.yml")


def test_every_placeholder_is_a_variable() -> None:
    assert set(SHELL_NAMES) == set(PLACEHOLDERS)


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (("--rank={rank}/{world_size}", "{local_rank}"), ["--rank=3/8", "1"]),
        (('{"a": "$HOME `id` {rank"}', "it's"), ['{"a": "$HOME `id` {rank"}', "it's"]),
        (("", "{nothing}", "a b"), ["", "{nothing}", "a b"]),
    ],
)
def test_words_reach_the_rank_unchanged(words: tuple[str, ...], seen: list[str]) -> None:
    script = f'RANK=3 LOCAL_RANK=1 WORLD_SIZE=8; printf "%s\\n" {shell_command(words)}'
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{word}\n" for word in seen)


def test_bash_can_read_it_and_so_can_a_person(tmp_path: Path) -> None:
    script = exported(env={"NOTE": "it's\n2 lines"}, slurm={"partition": "gpu"}, max_duration="1h", warn_before="5m")
    path = tmp_path / "train.sh"
    path.write_text(script)
    assert subprocess.run(["bash", "-n", path], capture_output=True, check=True).stderr == b""
    for line in ("#SBATCH --nodes=4", "#SBATCH --partition=gpu", "#SBATCH --time=63", "#SBATCH --signal=USR1@300"):
        assert line in script.splitlines()
    assert "--gpus-per-task" not in script
    assert script.endswith("exit $code\n"), "the last command is the verdict of the job"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"ranks_per_host": 8}, "export RANKS_PER_NODE=8"),
        ({}, "export RANKS_PER_NODE=${SLURM_GPUS_ON_NODE:-1}"),
        ({"gpus": "none"}, "export RANKS_PER_NODE=1"),
        ({"gpus": "none"}, "export BACKEND=gloo"),
        ({"backend": "nccl"}, "export BACKEND=nccl"),
        ({"init_method": "tcp"}, "export INIT_METHOD=tcp://$MASTER_ADDR:$MASTER_PORT"),
        ({"source": "/my code"}, "cd '/my code' || exit 69"),
        ({"hosts": "2..4"}, "#SBATCH --nodes=2-4"),
        ({"name": "two words"}, "#SBATCH --job-name='two words'"),
    ],
)
def test_settings_of_the_job(values: dict[str, Any], line: str) -> None:
    assert line in exported(**values).splitlines()


OF_PYXIS = {"runtime": "pyxis", "image": "site:5000/train:2", "mounts": ["/data:/d x:ro"]}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "  '--container-image=site:5000#train:2' \\"),
        ({}, "  --container-mounts=\"$PWD:$PWD\",'/data:/d x:ro' \\"),
        ({}, '  --container-workdir="$PWD" \\'),
        ({"workdir": "/app"}, "  --container-workdir=/app \\"),
        ({}, "    python train.py"),
        ({}, '    export HOME="$RESULTS/home-$RANK"'),
        ({"env": {"HOME": "/h"}}, "export HOME=/h"),
        ({"source": "/code"}, "cd /code || exit 69"),
    ],
)
def test_pyxis_makes_the_container_of_the_ranks_step(values: dict[str, Any], line: str) -> None:
    assert line in exported(**OF_PYXIS, **values).splitlines()


def test_variables_of_the_job_win_over_those_of_the_image() -> None:
    script = exported(**OF_PYXIS, env={"A": "1", "HOME": "/h", "LINES_OF": "a\nb", "BARE": None})
    (words,) = (line for line in script.splitlines() if "--container-env=" in line)
    names = words.partition("=")[2].removesuffix(" \\").split(",")
    assert {"A", "HOME", "BARE", "WORLD_SIZE", "MASTER_ADDR"} <= set(names)
    assert "LINES_OF" not in names, "enroot takes a line for a variable"
    assert "home-$RANK" not in script


@pytest.mark.parametrize(("values", "has"), [(OF_PYXIS, True), ({**OF_PYXIS, "gpus": "none"}, False), ({}, False)])
def test_the_hook_for_gpus_is_asked_where_there_may_be_some(values: dict[str, Any], has: bool) -> None:
    assert ("NVIDIA_VISIBLE_DEVICES=all" in exported(**values)) is has


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"image": "team/train:2"}, "ddp_job_image: docker://team/train:2 is Apptainer's"),
        (
            {"image": "docker://team/train:2", "runtime": "docker"},
            "ddp_job_image: docker://team/train:2 is Apptainer's",
        ),
        ({"launcher": "torchrun"}, "its launcher is torchrun"),
        ({"backend": "mpi"}, "its backend is mpi"),
        ({"init_method": "store"}, "a Store of ddp-play's own"),
        ({"restarts": 2}, "it restarts"),
        ({"hosts": "all"}, "ddp_job_hosts is not set"),
    ],
)
def test_what_a_script_cannot_say_is_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        exported(**values)


def test_the_remedy_of_a_job_without_a_number_of_hosts_is_the_number() -> None:
    with pytest.raises(UsageError) as refused:
        exported(hosts="all")
    assert "-e ddp_job_hosts=4" in refused.value.hint


def run_script(directory: Path, srun: str, *, before: str = ":", **values: Any) -> subprocess.CompletedProcess[str]:
    """An exported script in this working directory, outside Slurm, with a function in place of srun."""
    stand_ins = f"scontrol() {{ echo n1; }}; srun() {{ {srun}; }}; export SLURM_JOB_ID=5 SLURM_JOB_NODELIST=n1"
    script = exported(workdir=str(directory), gpus="none", **values)
    return subprocess.run(
        ["bash", "-c", f"{before}\n{stand_ins}\n{script}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (66, "not every node has {}/ddp-play-slurm-5"),
        (1, "srun could not start on all of n1"),  # such as a daemon that is dead, which srun names
        (143, "srun could not start on all of n1"),
    ],
)
def test_a_directory_that_a_node_lacks_is_named_and_no_other_failure_is(code: int, words: str, tmp_path: Path) -> None:
    done = run_script(tmp_path, f"return {code}")
    assert done.returncode == 69
    assert words.format(tmp_path) in done.stderr
    assert ("all nodes share" in done.stderr) == (code == 66)


@pytest.mark.parametrize(("values", "code"), [(OF_PYXIS, 69), ({}, 1)])
def test_a_step_without_a_container_is_no_failed_rank(values: dict[str, Any], code: int, tmp_path: Path) -> None:
    done = run_script(tmp_path, '[[ " $* " == *" sh -c "* ]]', **{**values, "mounts": [], "source": str(tmp_path)})
    assert done.returncode == code
    assert ("no rank started" in done.stderr) is (code == 69)


@pytest.mark.parametrize(("plugin", "binds"), [("task/affinity,task/cgroup", True), ("task/none", False)])
def test_only_a_cluster_that_binds_ranks_is_told_not_to(plugin: str, binds: bool, tmp_path: Path) -> None:
    before = f"real() {{ echo 'TaskPlugin              = {plugin}'; }}"
    script = exported(workdir=str(tmp_path), gpus="none")
    stand_ins = 'scontrol() { [ $1 = show ] && [ $2 = config ] && real || echo n1; }; srun() { echo "$@"; }'
    given = "export SLURM_JOB_ID=5 SLURM_JOB_NODELIST=n1"
    words = ["bash", "-c", f"{before}\n{stand_ins}\n{given}\n{script}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ("--cpu-bind=none" in done.stdout) is binds


def test_a_directory_that_all_nodes_have_is_used(tmp_path: Path) -> None:
    assert run_script(tmp_path, "return 0").returncode == 0


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    """Job ids can be guessed, and the working directory may be one that all can write."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ddp-play-slurm-5").symlink_to(tmp_path / "elsewhere")
    done = run_script(tmp_path, "return 0")
    assert (done.returncode, "or is somebody else's" in done.stderr) == (69, True)
    assert not list((tmp_path / "elsewhere").iterdir())


# Plays each step of the script as the one node.
ON_ONE_NODE = 'while [ "${1#-}" != "$1" ]; do shift; done; SLURM_NODEID=0 SLURMD_NODENAME=n1 "$@"'


def test_a_rank_that_fails_while_the_others_are_ended_is_recorded_whole(tmp_path: Path) -> None:
    """The signal that ends the others must not end the program that tells the time: the record began with the rank."""
    slow = tmp_path / "bin" / "date"  # of rank 1; the signal comes a second after the record of rank 0
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\n[ $RANK = 0 ] || sleep 2\nexec /bin/date "$@"\n')
    slow.chmod(0o755)
    command = ["sh", "-c", "exit $((3 + RANK))"]
    path = f'export PATH="{slow.parent}:$PATH"'
    done = run_script(tmp_path, ON_ONE_NODE, before=path, command=command, ranks_per_host=2)
    records = sorted((tmp_path / "ddp-play-slurm-5").glob("failed-*"))
    assert [record.read_text().split()[1:] for record in records] == [["0", "3", "n1"], ["1", "4", "n1"]]
    assert (done.returncode, "rank 0 on n1 failed first: exit code 3" in done.stdout) == (3, True), done.stderr
