"""Whether the ranks of a host can use MPI, by processes that stand for their Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.guard import mpi_check

if TYPE_CHECKING:
    from pathlib import Path


def spec(python: Path, **more: object) -> dict[str, object]:
    """A host's spec with one rank that this interpreter would run."""
    return {"runtime": "process", "ranks": [{"argv": [str(python), "t.py"], "env": {"PATH": "/usr/bin:/bin"}, **more}]}


def interpreter(path: Path, script: str) -> Path:
    """A stand-in whose last words are known."""
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


def test_whether_ranks_have_mpi_is_asked_of_their_own_python(tmp_path: Path) -> None:
    good = interpreter(tmp_path / "python3", 'test "$1" = -c')
    assert mpi_check.problem(spec(good)) == ""
    bad = interpreter(
        tmp_path / "python3.1", "echo Traceback >&2; echo 'RuntimeError: cannot load MPI library' >&2; exit 1"
    )
    assert mpi_check.problem(spec(bad)) == "RuntimeError: cannot load MPI library"
    assert "No such file" in mpi_check.problem(spec(tmp_path / "python9"))


def test_and_in_a_container_like_the_ranks() -> None:
    create = ["create", "--name", "r0", "--network", "host", "--env", "A", "--workdir", "/", "image:1", "sh", "-c", "x"]
    words = mpi_check.command({"runtime": "docker", "ranks": [{"argv": ["./run.sh"], "create": create}]})
    assert words[1:-2] == ["run", "--rm", "--network", "host", "--env", "A", "--workdir", "/", "image:1", "python3"]
