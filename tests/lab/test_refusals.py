"""Hosts that cannot meet are refused before anything starts, with the host's name and what helps."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab
from .rank_jobs import job

PORTS = "29870:29879"
BLOCK = f"INPUT -p tcp --dport {PORTS} -j DROP"
# Another image of the same name: one file more.
OTHER_IMAGE = (
    "docker tag ddp-play-rank:slim kept:1 && mkdir -p /tmp/other && cd /tmp/other && touch more"
    " && printf 'FROM kept:1\\nCOPY more /more\\n' >Dockerfile && docker build --quiet --tag ddp-play-rank:slim ."
)
SAME_IMAGE = "docker tag kept:1 ddp-play-rank:slim && docker rmi kept:1; rm -rf /tmp/other"


@dataclass(frozen=True)
class Case:
    """What is wrong on which host, and what must be said about it."""

    says: tuple[str, ...]
    variables: dict[str, Any] = field(default_factory=dict)  # of the job
    everywhere: dict[str, Any] = field(default_factory=dict)  # of all hosts
    on_h2: dict[str, Any] = field(default_factory=dict)  # of one
    ill: dict[str, str] = field(default_factory=dict)  # host -> script of root
    well: dict[str, str] = field(default_factory=dict)
    code: int = 69


CASES = {
    "the rendezvous port, blocked on one host": Case(
        ("h2 (", "does not reach h1", "rendezvous port", "check the firewalls between them"),
        variables={"port_range": PORTS.replace(":", "-")},
        ill={"h1": f"iptables -I {BLOCK}"},
        well={"h1": f"iptables -D {BLOCK}"},
    ),
    "an interface that one host lacks": Case(
        ("h2: interface eth7 (ddp_interface) does not exist", "correct ddp_interface of h2"),
        on_h2={"ddp_interface": "eth7"},
    ),
    "a file without a shared directory": Case(
        ("ddp_shared_dir",), variables={"init_method": "file"}, everywhere={"ddp_shared_dir": ""}, code=64
    ),
    "a file in a directory that is not shared": Case(
        ("h1, h2, h3: shared by all: files of other hosts are not seen within 3 s", "mount the same export there"),
        variables={"init_method": "file"},
        everywhere={"ddp_shared_dir": "/tmp/apart"},
        ill=dict.fromkeys(("h1", "h2", "h3"), "install -d -o ops /tmp/apart"),
        well=dict.fromkeys(("h1", "h2", "h3"), "rm -rf /tmp/apart"),
    ),
    "another image of the same name": Case(
        ("ddp-play-rank:slim", "h3", "image load"), ill={"h3": OTHER_IMAGE}, well={"h3": SAME_IMAGE}
    ),
    "nccl where there is no GPU": Case(("nccl", "GPU", "h1"), variables={"backend": "nccl"}, code=64),
}


@contextlib.contextmanager
def changed(lab: Lab, case: Case) -> Iterator[None]:
    """The hosts are ill in here, and well again afterwards."""
    try:
        for host, script in case.ill.items():
            lab.on(host, script, user="root")
        yield
    finally:
        for host, script in case.well.items():
            lab.on(host, script, user="root")


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("name", CASES)
def test_refused_before_anything_starts(lab3: Lab, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    more = tmp_path / "more.json"
    hosts = {"h2": case.on_h2} if case.on_h2 else {}
    more.write_text(json.dumps({"ranks": {"hosts": hosts, "vars": case.everywhere}}))
    path = job(tmp_path, {"command": ["echo", "started"], **case.variables})
    with changed(lab3, case):
        done = lab3.play("run", path, "-i", str(lab3.inventory), "-i", str(more), "--ranks", "all")
    assert done.returncode == case.code, done.stderr
    for words in case.says:
        assert words in done.stderr, done.stderr
    assert "started" not in done.stdout
