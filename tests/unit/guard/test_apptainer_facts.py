"""Facts about Apptainer and the image of a job, with programs that say what real ones say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.apptainer_facts import facts, image_file, kind_of

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = {"login_uid": os.geteuid(), "login_gid": os.getegid()}
SIF_HEAD = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\x0001\x0002\0" + bytes(range(16)) + bytes(64)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "bin"
    found.mkdir()
    monkeypatch.setenv("PATH", str(found))
    return found


def program(where: Path, script: str) -> None:
    where.write_text(f"#!/bin/sh\n{script}\n")
    where.chmod(0o755)


def test_nobody_asks(programs: Path) -> None:
    program(programs / "apptainer", "exit 3")
    assert facts({}, LOGIN) is None


@pytest.mark.parametrize(
    ("name", "said", "expected"),
    [
        ("apptainer", "apptainer version 1.4.5", ("apptainer", "1.4.5", "")),
        ("apptainer", "apptainer version 1.3.6-1.el9", ("apptainer", "1.3.6-1.el9", "")),
        ("singularity", "singularity-ce version 4.1.2-jammy", ("singularity-ce", "4.1.2-jammy", "")),
        ("singularity", "singularity version 3.8.7", ("singularity", "3.8.7", "")),
        ("singularity", "apptainer version 1.4.5", ("apptainer", "1.4.5", "")),
    ],
)
def test_programs_name_themselves(programs: Path, name: str, said: str, expected: tuple[str, ...]) -> None:
    program(programs / name, f"echo '{said}'")
    found = facts({"apptainer": "docker://i"}, LOGIN)
    assert found is not None
    assert (found["name"], found["version"], found["problem"]) == expected
    assert (found["program"], found["image"]) == (str(programs / name), None)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "neither apptainer nor singularity is in the PATH"),
        ("echo 'FATAL: no configuration' >&2; exit 255", "--version fails: FATAL: no configuration"),
        ("echo nonsense", "which is no version"),
    ],
)
def test_programs_that_cannot_be_used(programs: Path, script: str | None, words: str) -> None:
    if script is not None:
        program(programs / "apptainer", script)
    found = facts({"apptainer": "docker://i"}, LOGIN)
    assert found is not None
    assert words in found["problem"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (SIF_HEAD, ("sif", bytes(range(16)).hex(), "")),
        (SIF_HEAD.replace(bytes(range(16)), bytes(16)), ("sif", "", "")),
        (b"hsqs" + bytes(100), ("squashfs", "", "")),
        (b"a text", ("", "", "is neither a SIF file nor another image of Apptainer")),
        (b"", ("", "", "is neither a SIF file nor another image of Apptainer")),
    ],
)
def test_kinds_of_files(tmp_path: Path, content: bytes, expected: tuple[str, ...]) -> None:
    path = tmp_path / "x.sif"
    path.write_bytes(content)
    found = image_file(str(path), None)
    assert (found["kind"], found["id"], found["problem"]) == expected


def test_ext3_has_its_magic_behind_the_boot_block() -> None:
    assert kind_of(bytes(1080) + b"\x53\xef") == "ext3"
    assert kind_of(bytes(1082)) == ""


def test_directories_and_paths_that_are_not_there(tmp_path: Path) -> None:
    assert "without bin and usr" in image_file(str(tmp_path), None)["problem"]
    (tmp_path / "usr").mkdir()
    assert image_file(str(tmp_path), None) == {"kind": "sandbox", "id": "", "problem": ""}
    assert image_file(str(tmp_path / "no.sif"), None)["problem"] == "does not exist"


def test_the_ranks_user_has_to_read_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("root reads with the rights of others")
    path = tmp_path / "x.sif"
    path.write_bytes(SIF_HEAD)
    path.chmod(0o600)
    user: dict[str, Any] = {"uid": 65534, "gid": 65534, "groups": [65534]}
    assert image_file(str(path), user)["problem"] == "cannot be read: Permission denied"
