"""Path of the progress files on a host: relative, absolute, in containers, and files that no attempt keeps."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import UsageError
from tests.unit.build import apptainer, engine, host, plan, shared

SRC = "<host_dir>/src"
ON_SHARED = "/shared/.ddp-play/<run_key>/src"
MOUNTS = ["/nfs/ckpt:/ckpt", "/nfs/fast:/ckpt/fast", "/tmp:/"]


def path(progress: str, **values: Any) -> str:
    """The path that the plan has for the only host."""
    container: dict[str, Any] = {"image": "i:1"} if values.pop("docker", False) else {}
    container |= {"image": "/x.sif"} if values.pop("apptainer", False) else {}
    container |= {"image": "/x.sqsh", "runtime": "pyxis"} if values.pop("pyxis", False) else {}
    facts = host(shared=shared() if values.pop("shared", False) else None, engine=engine(), apptainer=apptainer())
    return plan(facts, progress=progress, source="/code", **container, **values).hosts[0].progress


@pytest.mark.parametrize(
    ("progress", "values", "expected"),
    [
        ("", {}, ""),
        ("", {"restarts": 3}, ""),
        ("ckpt/*.pt", {}, f"{SRC}/ckpt/*.pt"),
        ("ckpt/*.pt", {"shared": True, "restarts": 1}, f"{ON_SHARED}/ckpt/*.pt"),
        ("/data/{run_id}/step-*", {"restarts": 1}, "/data/<run_id>/step-*"),
        ("ckpt/**", {"shared": True, "docker": True, "restarts": 1}, f"{ON_SHARED}/ckpt/**"),
        ("/shared/x", {"shared": True, "docker": True, "restarts": 1}, "/shared/x"),
        ("/ckpt/a.pt", {"docker": True, "restarts": 1, "mounts": MOUNTS}, "/nfs/ckpt/a.pt"),
        ("/ckpt/fast/a.pt", {"docker": True, "restarts": 1, "mounts": MOUNTS}, "/nfs/fast/a.pt"),
        ("/ckptfast/a.pt", {"docker": True, "restarts": 1, "mounts": MOUNTS}, "/tmp/ckptfast/a.pt"),
        ("ckpt/*.pt", {"apptainer": True}, f"{SRC}/ckpt/*.pt"),
        ("ckpt/**", {"shared": True, "apptainer": True, "restarts": 1}, f"{ON_SHARED}/ckpt/**"),
        ("/ckpt/a.pt", {"apptainer": True, "restarts": 1, "mounts": MOUNTS[:2]}, "/nfs/ckpt/a.pt"),
        ("/tmp/a.pt", {"apptainer": True, "restarts": 1}, "/tmp/a.pt"),
        ("ckpt/*.pt", {"pyxis": True}, f"{SRC}/ckpt/*.pt"),
        ("/ckpt/a.pt", {"pyxis": True, "restarts": 1, "mounts": MOUNTS[:2]}, "/nfs/ckpt/a.pt"),
        ("/dev/shm/a.pt", {"pyxis": True, "restarts": 1}, "/dev/shm/a.pt"),
        ("../ckpt/a.pt", {"docker": True, "restarts": 1, "mounts": MOUNTS}, "/nfs/ckpt/a.pt"),
    ],
)
def test_path_on_the_host(progress: str, values: dict[str, Any], expected: str) -> None:
    assert path(progress, **values) == expected


def test_files_of_one_attempt_show_no_progress_of_the_run() -> None:
    with pytest.raises(
        UsageError, match=r"ddp_job_progress: ckpt/\* is in the working directory, which is empty at"
    ) as no:
        path("ckpt/*", restarts=1)
    assert "set ddp_shared_dir" in no.value.hint


def test_files_that_are_gone_with_their_container() -> None:
    with pytest.raises(UsageError, match="/elsewhere/x is inside the image or the container only") as no:
        path("/elsewhere/x", docker=True)
    with pytest.raises(UsageError, match="/elsewhere/x is inside the image or the container only"):
        path("/elsewhere/x", apptainer=True)
    with pytest.raises(UsageError, match="/tmp/x is inside the image or the container only"):
        path("/tmp/x", pyxis=True)
    assert "ddp_job_mounts" in no.value.hint


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(UsageError, match="ddp_job_progress holds a NUL byte"):
        path("a\0b")
