"""Why a program could not be started, by what the kernel answers to real attempts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ddp_play.guard.start_problem import words


def reason(argv: list[str], workdir: Path) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - any of its classes
        subprocess.run(argv, cwd=workdir, check=False)
    return words(argv, str(workdir), caught.value)


def script(folder: Path, first_line: str, mode: int = 0o755) -> list[str]:
    path = folder / "train.sh"
    path.write_bytes(first_line.encode() + b"\necho started\n")
    path.chmod(mode)
    return ["./train.sh"]


def test_a_program_that_starts_has_no_reason(tmp_path: Path) -> None:
    assert subprocess.run(script(tmp_path, "#!/bin/sh"), cwd=tmp_path, check=False, capture_output=True).returncode == 0


def test_the_working_directory_is_named(tmp_path: Path) -> None:
    assert reason(["true"], tmp_path / "no") == f"the working directory {tmp_path}/no does not exist"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert reason(["no-such-program"], tmp_path) == "[Errno 2] No such file or directory: 'no-such-program'"
    assert reason(["./train.sh"], tmp_path) == "[Errno 2] No such file or directory: './train.sh'"


def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    assert reason(script(tmp_path, "#!/bin/sh", 0o644), tmp_path) == "./train.sh is not executable"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("#!/usr/bin/pythonn", "needs /usr/bin/pythonn, which does not exist"),
        ("#! /usr/bin/pythonn -u", "needs /usr/bin/pythonn, which does not exist"),
        ("#!/bin/sh\r", "needs /bin/sh, which does not exist: the line ends with a carriage return"),
    ],
)
def test_a_script_without_its_interpreter(tmp_path: Path, line: str, says: str) -> None:
    assert reason(script(tmp_path, line), tmp_path) == f"./train.sh {says}"
