"""Images before the start: pulled once, and tried as the ranks will be started; a program stands for Apptainer."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import apptainer_preparation, processes
from ddp_play.guard.apptainer_preparation import provide, reason, try_out
from ddp_play.guard.protocol import WITHDRAWN
from ddp_play.guard.refusal import Refused
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def spec(tmp_path: Path, script: str, *, image: str = "") -> dict[str, Any]:
    """`image`: empty for the path itself."""
    program = tmp_path / "apptainer"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    file = str(tmp_path / "image" / "rank.sif")
    words = [str(program), "--quiet", "--nocolor", "exec", file]
    unit = {"argv": [*words, "python"], "env": {"PATH": "/usr/bin:/bin"}, "num_image_words": len(words)}
    return {"image": image or file, "ranks": [unit], "agent": None, "user": None, "pull_timeout_s": 20}


def test_a_path_is_not_pulled(tmp_path: Path) -> None:
    provide(spec(tmp_path, "exit 3"), {})
    assert not (tmp_path / "image").exists()


def test_a_reference_is_pulled_to_the_runs_own_file(tmp_path: Path) -> None:
    script = 'echo "$*" > "$4"; echo "$APPTAINER_DOCKER_USERNAME:$APPTAINER_DOCKER_PASSWORD" >> "$4"'
    login = {"username": "kim", "password": "not-to-be-seen", "server": "s"}
    provide(spec(tmp_path, script, image="docker://team/train:2"), login)
    file = tmp_path / "image" / "rank.sif"
    words, secret = file.read_text().splitlines()
    assert words == f"--quiet --nocolor pull {file} docker://team/train:2"
    assert secret == "kim:not-to-be-seen"


def test_a_pull_that_fails_is_refused_with_the_reason(tmp_path: Path) -> None:
    script = "echo 'INFO: x' >&2; echo 'FATAL:   manifest unknown' >&2; exit 255"
    with pytest.raises(Refused, match="cannot pull docker://i: manifest unknown"):
        provide(spec(tmp_path, script, image="docker://i"), {})


def test_a_pull_that_nobody_wants_any_more_ends(tmp_path: Path) -> None:
    script = f"setsid sleep 600 & echo $! > {tmp_path}/pid; wait"
    written = tmp_path / "pid"
    with pytest.raises(Refused, match="withdrawn") as caught:
        provide(spec(tmp_path, script, image="docker://i"), {}, lambda: written.exists() and bool(written.read_text()))
    assert caught.value.kind == WITHDRAWN
    pid = int(written.read_text())
    wait_until(lambda: not processes.alive(pid, None), timeout_s=10, what="its end")


def test_a_start_that_hangs_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apptainer_preparation, "TRY_S", 0.5)
    with pytest.raises(Refused, match=r"apptainer exec did not end within 0\.5 s"):
        try_out(spec(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait"))
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not processes.alive(pid, None), timeout_s=10, what="its end")


@pytest.mark.parametrize(
    ("said", "words", "hint"),
    [
        ("FATAL:   failed to set working directory: chdir /x: no such file", "chdir /x", "ddp_job_workdir"),
        ("ERROR  : Failed to create user namespace: user namespace disabled", "namespace", "max_user_namespaces"),
        ("FATAL:   mount source /x doesn't exist", "/x", "make it on HOSTS"),
        ("FATAL:   something new", "something new", ""),
    ],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, said: str, words: str, hint: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        try_out(spec(tmp_path, f'echo "{said}" >&2; exit 255'))
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "script", ["exit 0", "echo 'FATAL: \"true\": executable file not found in PATH' >&2; exit 255"]
)
def test_an_image_that_was_started_is_not(tmp_path: Path, script: str) -> None:
    try_out(spec(tmp_path, f'[ "$4" = {tmp_path}/image/rank.sif ] && [ "$5" = true ] || exit 4; {script}'))


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (b"INFO: a\nERROR  : b\nINFO: c\n", "b"),
        (b"words\nmore\n", "more"),
        (b"", "exit code 4"),
    ],
)
def test_reasons(errors: bytes, expected: str) -> None:
    assert reason(subprocess.CompletedProcess([], 4, b"", errors)) == expected
