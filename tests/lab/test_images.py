"""Images with packages of `--with`, and `image load` of an image that does not exist yet."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pexpect
import pytest

from tests.schemas import check

from .conftest import COMMAND, Lab, build_turn
from .rank_jobs import fresh, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = "tabulate"


@pytest.fixture
def tag() -> Iterator[str]:
    """Name of an image that is removed afterwards."""
    name = f"{fresh('ddp-play-test')}:1"
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, check=False)


def run_in_ranks(lab: Lab, tmp_path: Path, image: str, program: str) -> list[str]:
    """Run a Python program in every rank; return its output by rank."""
    name = fresh("images")
    path = job(tmp_path, {"image": image, "image_pull": "never", "command": ["python", "-c", program]})
    done = lab.play("run", path, "-i", str(lab.inventory), "--name", name)
    assert done.returncode == 0, done.stdout + done.stderr
    return [(lab.home / "runs" / name / "logs" / f"rank-{rank}.log").read_text().strip() for rank in range(4)]


def nameless() -> set[str]:
    """Images of this machine without a name."""
    command = ["docker", "images", "--quiet", "--no-trunc", "--filter", "dangling=true"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_a_package_of_pips_index_is_there_in_every_rank(lab3: Lab, tmp_path: Path, tag: str) -> None:
    with build_turn():
        before = nameless()
        built = lab3.play("image", "build", "--slim", "--with", PACKAGE, "--tag", tag, "--json", timeout_s=300)
        after = nameless()
    assert built.returncode == 0, built.stderr
    assert after <= before, "the stage in which the wheels were installed stayed"
    answer = json.loads(built.stdout)
    check("image-build", answer)
    assert [row.partition("==")[0] for row in answer["added"]] == [PACKAGE]
    assert f"asking pip for {PACKAGE}" in built.stderr
    assert "to download" in built.stderr or "all of it is here" in built.stderr
    loaded = lab3.play("image", "load", "-i", str(lab3.inventory), "--image", tag, "--json", timeout_s=300)
    check("image-load", json.loads(loaded.stdout))
    assert json.loads(loaded.stdout)["sent"] == ["h1", "h2", "h3"]
    version = answer["added"][0].partition("==")[2]
    assert run_in_ranks(lab3, tmp_path, tag, f"import {PACKAGE}; print({PACKAGE}.__version__)") == [version] * 4


def test_a_requirements_file_and_a_wheelhouse_need_no_index(lab3: Lab, tmp_path: Path, tag: str) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "house_made-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("house_made.py", "WORD = 'made here'\n")
        wheel.writestr("house_made-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: house-made\nVersion: 1.0\n")
        wheel.writestr("house_made-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("house_made-1.0.dist-info/RECORD", "")
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), "pip"]
    subprocess.run(download, check=True, timeout=120)
    (tmp_path / "requirements.txt").write_text("house-made==1.0\n")
    words = ["image", "build", "--slim", "--with", "-r", str(tmp_path / "requirements.txt"), "--tag", tag]
    built = lab3.play(*words, "--wheelhouse", str(wheels), timeout_s=300)
    assert built.returncode == 0, built.stderr
    run = ["docker", "run", "--rm", tag, "python", "-c", "import house_made; print(house_made.WORD)"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "made here\n"


def test_a_misspelt_package_is_named_before_anything_is_built(lab3: Lab, tag: str) -> None:
    done = lab3.play("image", "build", "--slim", "--with", "tabulatte-no-such-thing", "--tag", tag)
    assert done.returncode == 69
    assert "No matching distribution found for tabulatte-no-such-thing" in done.stderr
    assert "building" not in done.stderr
    assert subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False).returncode == 1


def test_a_tag_may_name_a_registry_with_a_port(lab3: Lab, tag: str) -> None:
    name = f"localhost:5000/{tag}"
    try:
        built = lab3.play("image", "build", "--slim", "--tag", name, timeout_s=300)
        assert (built.returncode, built.stdout.splitlines()[0]) == (0, name), built.stderr
    finally:
        subprocess.run(["docker", "image", "rm", name], capture_output=True, check=False)


def test_an_image_that_does_not_exist_is_built_before_it_is_loaded(lab3: Lab, tag: str) -> None:
    words = ["image", "load", "-i", str(lab3.inventory), "--image", tag, "--limit", "h1"]
    refused = lab3.play(*words, "--json")
    assert refused.returncode == 64
    check("error", json.loads(refused.stdout))
    done = lab3.play(*words, "--build", "slim", timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert "sent to 0 hosts, 1 host already had it" in done.stdout  # as ddp-play-rank:slim
    assert "h1 had it under another name" in done.stderr
    assert lab3.on("h1", f"docker image inspect --format {{{{.Id}}}} {tag}")


@pytest.mark.parametrize(("answer", "code"), [("slim", 0), ("no", 64)])
def test_on_a_terminal_it_asks(lab3: Lab, tag: str, answer: str, code: int) -> None:
    words = ["image", "load", "-i", str(lab3.inventory), "--image", tag, "--limit", "h1"]
    child = pexpect.spawn(
        COMMAND, words, env=dict(lab3.environment), encoding="utf-8", timeout=120, dimensions=(40, 100)
    )
    child.expect("cpu, cuda, slim, or no")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
