"""The container of a node: the step that makes it, what ends it, and what pyxis says; a program stands for srun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import processes, pyxis_container
from ddp_play.guard.protocol import WITHDRAWN
from ddp_play.guard.pyxis_container import held, image_env, reason
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from tests.waiting import wait_until

ABSENT = """\
pyxis: importing docker image: a
slurmstepd-n2: error: pyxis: child 17543 failed with error code: 1
slurmstepd-n2: error: pyxis: failed to create container filesystem for image: /no.sqsh
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [ERROR] No such file or directory: /no.sqsh
slurmstepd-n2: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
srun: error: n2: task 0: Exited with exit code 1
"""
NO_MOUNT = """\
slurmstepd-n2: error: pyxis: --container-mounts: source path does not exist: /nope
slurmstepd-n2: error: pyxis: couldn't create enroot start configuration script
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [INFO] Extracting squashfs filesystem...
slurmstepd-n2: error: pyxis:     created 3 files
"""
NO_REGISTRY = """\
slurmstepd-n2: error: pyxis: failed to import docker image: x.invalid#a
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [INFO] Querying registry for permission grant
slurmstepd-n2: error: pyxis:     curl: (6) Could not resolve host: x.invalid
"""
NO_SHELL = """\
slurmstepd-n2: error: pyxis: container start failed with error code: 1
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     enroot-switchroot: failed to execute: /bin/sh: No such file or directory
slurmstepd-n2: error: pyxis: container was not started successfully by another task
"""
NO_PLUGIN = "srun: unrecognized option '--container-image=/x.sqsh'\nTry \"srun --help\" for more information\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostRun:
    """The directory of an attempt, in a step of a job."""
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_STEP_ID", "3")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", ["/state/guard.pyc", "channel"])
    found = HostRun(tmp_path / "state")
    found.root.mkdir()
    return found


def srun(place: HostRun, script: str) -> dict[str, Any]:
    """A host's spec; `srun` is this script, and its words and variables are recorded."""
    program = place.root.parent / "srun"
    program.write_text(f'#!/bin/sh\necho "$*" > {place.root.parent}/words\nenv > {place.root.parent}/env\n{script}\n')
    program.chmod(0o755)
    return {
        "runtime": "pyxis",
        "ranks": [{"step_options": ["--container-image=/x.sqsh"]}],
        "agent": None,
        "pull_timeout_s": 20,
    }


# As Slurm does, the step goes on when srun is killed: it is in a session of its own.
STEP = 'while [ "$1" != /bin/sh ]; do shift; done; A_NAME="of the image" setsid "$@" & wait'


def test_the_container_lasts_as_long_as_the_guard_has_its_pipe_open(
    place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = srun(place, STEP)
    monkeypatch.setenv("ENROOT_CONFIG_PATH", "/team/enroot")
    monkeypatch.setenv("https_proxy", "http://kim:s3cret@proxy:3128")
    with held(place, spec) as (alive,):
        with subprocess.Popen(["sleep", "600"], pass_fds=(alive,)) as guard:
            known = json.loads((place.root / "container.json").read_text())
            os.set_inheritable(alive, False)
            try:
                assert processes.alive(known["pid"], None)
                assert known["env"]["A_NAME"] == "of the image"
                assert set(known["namespaces"]) == {"user", "ipc", "uts", "net", "mnt"}
            finally:
                guard.kill()
        assert processes.alive(known["pid"], None), "this process has it open too"
    wait_until(lambda: not processes.alive(known["pid"], None), timeout_s=10, what="the end of the container")
    words = (place.root.parent / "words").read_text()
    assert words.startswith("--overlap --jobid=17 --nodes=1 --ntasks=1 --nodelist=n1 --mem=0 ")
    assert "--container-image=/x.sqsh /bin/sh -c trap" in words
    given = (place.root.parent / "env").read_text()
    assert "NVIDIA_VISIBLE_DEVICES=all" in given
    assert "SLURM_STEP_ID" not in given, "it would be about another step"
    assert {"ENROOT_CONFIG_PATH=/team/enroot", "https_proxy=http://kim:s3cret@proxy:3128"} <= set(given.splitlines())
    assert ("s3cret" in words, "https_proxy" in known["env"]) == (False, False)


def test_signals_that_slurm_sends_to_all_steps_do_not_end_it(place: HostRun) -> None:
    with held(place, srun(place, STEP)):
        pid = json.loads((place.root / "container.json").read_text())["pid"]
        os.kill(pid, 15)
        os.kill(pid, 2)
        assert processes.alive(pid, None)


def test_what_others_print_before_is_no_pid(place: HostRun) -> None:
    prints = "echo a prolog of 2 words; printf 'no end of line'; sleep 0.3; "
    with held(place, srun(place, prints + STEP)):
        pid = json.loads((place.root / "container.json").read_text())["pid"]
        assert processes.alive(pid, None)


def test_a_step_that_prints_and_ends_makes_none(place: HostRun) -> None:
    with pytest.raises(Refused, match="exit code 3"), held(place, srun(place, "echo hello; exit 3")):
        pass


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ("exit 1", r"cannot make the container: --container-mounts: source path does not exist: /nope"),
        ("exec sleep 600", r"has ended already, .*: --container-mounts: source path does not exist: /nope"),
    ],
)
def test_a_container_that_ends_at_once_is_refused_with_what_pyxis_says(place: HostRun, ends: str, words: str) -> None:
    """The process in it is gone, with srun or before srun is."""
    spec = srun(place, f"cat >&2 <<'E'\n{NO_MOUNT}E\necho ddp-play 4194305; {ends}")
    with pytest.raises(Refused, match=words), held(place, spec):
        pass


def test_a_container_that_is_made_after_its_channel_was_killed_ends(place: HostRun, tmp_path: Path) -> None:
    spec = srun(place, f"while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; {STEP}")
    source = (
        "import json, sys; from pathlib import Path; from ddp_play.guard.pyxis_container import held; "
        "from ddp_play.guard.run_directory import HostRun; "
        "held(HostRun(Path(sys.argv[1])), json.loads(sys.argv[2])).__enter__()"
    )
    with subprocess.Popen([sys.executable, "-c", source, str(place.root), json.dumps(spec)]) as channel:
        wait_until((tmp_path / "words").exists, timeout_s=20, what="srun")
        channel.kill()
    (tmp_path / "go").touch()
    output = place.container_output
    wait_until(lambda: output.read_bytes().endswith(b"\n"), timeout_s=10, what="the container")
    pid = int(output.read_text().split()[-1])
    wait_until(lambda: not processes.alive(pid, None), timeout_s=5, what="the end of the container")


def test_a_command_enters_it_by_a_script_of_the_attempt(place: HostRun) -> None:
    with held(place, srun(place, STEP)):
        program = place.root / "enter-container"
        assert program.read_text() == (
            f'exec {sys.executable} -I -S /state/guard.pyc enter {place.root}/container.json "$@"\n'
        )


def test_what_pyxis_says_is_the_refusal(place: HostRun) -> None:
    spec = srun(place, f"cat >&2 <<'E'\n{ABSENT}E\nexit 1")
    with (
        pytest.raises(Refused, match=r"cannot make the container: failed to create .*: No such file") as caught,
        held(place, spec),
    ):
        pass
    assert "a .sqsh file that HOSTS can read" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ABSENT, "failed to create container filesystem for image: /no.sqsh: No such file or directory: /no.sqsh"),
        (NO_MOUNT, "--container-mounts: source path does not exist: /nope"),
        (NO_REGISTRY, "failed to import docker image: x.invalid#a: curl: (6) Could not resolve host: x.invalid"),
        (
            NO_SHELL,
            "container start failed with error code: 1: "
            "enroot-switchroot: failed to execute: /bin/sh: No such file or directory",
        ),
        (NO_PLUGIN, "srun: unrecognized option '--container-image=/x.sqsh'"),
        ("srun: error: Unable to create step: nodes busy\n", "Unable to create step: nodes busy"),
        ("", ""),
    ],
)
def test_reasons(text: str, expected: str) -> None:
    assert reason(text) == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (NO_MOUNT, "ddp_job_mounts"),
        (NO_REGISTRY, "correct ddp_job_image, or make a .sqsh file with enroot import"),
        (ABSENT, "a .sqsh file that HOSTS can read"),
        (ABSENT + "slurmstepd-n2: error: pyxis:     write failed because No space left on device", "ENROOT_DATA_PATH"),
        (NO_SHELL, "the image needs sh"),
        (NO_PLUGIN, "install pyxis"),
        ("slurmstepd-n1: error: pyxis: couldn't chdir to /app: No such file or directory", "ddp_job_workdir"),
        ("slurmstepd: error: pyxis: failed to import docker image: a\n"
         "slurmstepd: error: pyxis:     [ERROR] URL https://x returned error code: 401 Unauthorized",
         "~/.config/enroot/.credentials"),
        ("srun: error: something new", ""),
    ],
)  # fmt: skip
def test_remedies(place: HostRun, text: str, hint: str) -> None:
    spec = srun(place, f"cat >&2 <<'E'\n{text}\nE\nexit 1")
    with pytest.raises(Refused) as caught, held(place, spec):
        pass
    assert hint in caught.value.hint if hint else caught.value.hint == ""


def test_an_import_that_nobody_wants_any_more_is_ended(place: HostRun) -> None:
    spec = srun(place, f"echo $$ > {place.root.parent}/pid; exec sleep 600")
    file = place.root.parent / "pid"
    with pytest.raises(Refused, match="withdrawn") as caught, held(place, spec, file.exists):
        pass
    assert caught.value.kind == WITHDRAWN
    assert not processes.alive(int(file.read_text() or 0), None)


def test_an_import_has_a_limit(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyxis_container, "END_S", 0.2)
    spec = {**srun(place, "trap '' TERM; while :; do sleep 0.1; done"), "pull_timeout_s": 0.3}
    with pytest.raises(Refused, match=r"did not make the container within 0\.3 s"), held(place, spec):
        pass


def test_other_runtimes_have_none(place: HostRun) -> None:
    with held(place, {**srun(place, "exit 1"), "runtime": "process"}) as kept_open:
        assert kept_open == ()
    assert not list(place.root.iterdir())


def test_outside_of_a_job_there_is_none(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(Refused, match="this is none"), held(place, srun(place, "exit 0")):
        pass


def test_a_proxy_of_the_image_is_told_from_that_of_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://of-the-login:1")
    monkeypatch.setenv("no_proxy", ".login")
    (tmp_path / "environ").write_bytes(b"http_proxy=http://of-the-login:1\0no_proxy=.image\0HTTPS_PROXY=http://i:2\0")
    assert image_env(tmp_path / "environ") == {"no_proxy": ".image", "HTTPS_PROXY": "http://i:2"}


def test_variables_of_the_image_are_told_from_those_of_the_step(tmp_path: Path) -> None:
    rows = ["PATH=/opt/bin:/bin", "SLURM_JOB_ID=1", "HOME=/root", "LD_LIBRARY_PATH=/l", "PYXIS_VERSION=0", "no value"]
    rows += ["CUDA_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0", "ROCR_VISIBLE_DEVICES=0", "ZE_AFFINITY_MASK=0"]
    (tmp_path / "environ").write_bytes("\0".join([*rows, "TWO=a\nb=c", ""]).encode())
    assert image_env(tmp_path / "environ") == {"PATH": "/opt/bin:/bin", "LD_LIBRARY_PATH": "/l", "TWO": "a\nb=c"}
