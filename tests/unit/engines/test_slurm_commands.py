"""Slurm's commands: a program that is missing, and the words of one that fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.engines import slurm_commands
from ddp_play.engines.slurm_commands import Answer, ask, fields_of, shown
from ddp_play.errors import HostNotReady

if TYPE_CHECKING:
    from pathlib import Path


def program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_without_slurm_the_message_says_where_to_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostNotReady, match="there is no Slurm on this machine: sbatch is not installed"):
        ask("sbatch", "--version")


def test_what_a_command_says_is_kept_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "sbatch", 'echo "$1"; echo "sbatch: error: no such partition" >&2; exit 3')
    answer = ask("sbatch", "12")
    assert (answer.code, answer.out, answer.words) == (3, "12\n", "no such partition")


def test_a_command_that_hangs_is_an_answer_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm_commands, "ANSWER_S", 0.2)
    program(tmp_path, "squeue", "exec sleep 30")
    assert "no answer within" in ask("squeue").words


def test_a_command_without_words_has_its_code() -> None:
    assert Answer(4, "", "").words == "exit code 4"


def test_words_of_a_path_are_no_fields() -> None:
    text = "JobId=1 JobName=a JobState=RUNNING Reason=None Command=/home/kim/my runs/x JobState=FAILED WorkDir=/"
    assert fields_of(text)["JobState"] == "RUNNING"


def test_a_field_without_a_value_is_none() -> None:
    assert fields_of("JobId=1 NodeList=(null) BatchHost= Comment=x NodeList=n1") == {
        "JobId": "1",
        "BatchHost": "",
        "Comment": "x",
    }


def test_what_slurm_does_not_say_is_empty() -> None:
    assert shown(lambda *words: Answer(0, f"JobId={words[3]} Kind={words[2]}", ""), "job", "12")["JobId"] == "12"
    assert shown(lambda *_words: Answer(1, "", "error: Invalid job id specified"), "job", "12") == {}
