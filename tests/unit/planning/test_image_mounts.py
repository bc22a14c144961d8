"""Files of a run in an image: the same paths, in the same order, with Apptainer and with pyxis."""

from __future__ import annotations

import re

import pytest

from tests.unit.build import apptainer, host, plan, shared

RUN, SECRETS, CONF = "<host_dir>", "<secrets_dir>", "/etc/nccl.conf"
MOUNT = re.compile(r"source=([^,]+),destination=([^,]+)(,ro)?")


def rows_of(runtime: str, *, everything: bool) -> list[tuple[str, str, bool]]:
    """The mounts of a rank, from the words of its runtime."""
    fields = {"shared": shared("/nfs"), "nccl_conf": True} if everything else {}
    values = {"secret_names": ("TOKEN",), "mounts": ["/data:/d:ro"]} if everything else {}
    made = plan(host(apptainer=apptainer(), **fields), runtime=runtime, image="/nfs/train.sqsh", **values)  # type: ignore[arg-type]
    words = made.host_of(0).rank(0).image_words
    if runtime == "apptainer":
        return [(found[1], found[2], bool(found[3])) for word in words if (found := MOUNT.search(word))]
    (option,) = (word.partition("=")[2] for word in words if word.startswith("--container-mounts="))
    fields_of = [row.split(":") for row in option.split(",")]
    return [(row[0], row[1], row[2:] == ["ro"]) for row in fields_of]


@pytest.mark.parametrize("runtime", ["apptainer", "pyxis"])
def test_the_runs_own_files_come_before_the_mounts_of_the_job(runtime: str) -> None:
    assert rows_of(runtime, everything=False) == [(RUN, RUN, False)]
    assert rows_of(runtime, everything=True) == [
        (RUN, RUN, False), ("/nfs", "/nfs", False), (SECRETS, SECRETS, True), (CONF, CONF, True), ("/data", "/d", True),
    ]  # fmt: skip
