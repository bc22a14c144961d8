"""Hosts that could not be asked for an image, with what helps. The transfer itself is tested in the lab."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.images import archive
from ddp_play.images.archive import HostImage, query_all_hosts, query_hosts, raise_failures
from ddp_play.images.ssh_access import HostAccess
from ddp_play.lab.progress_listener import SilentListener

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = "ops@10.0.0.1: Permission denied (publickey)."


def ends(name: str, says: str, code: int) -> HostAccess:
    """A host whose ssh says this and ends with this code."""
    return HostAccess(name, ("sh", "-c", f"echo '{says}' >&2; exit {code}", "-p", "2222", "10.0.0.1"))


@pytest.mark.parametrize(
    ("says", "code", "remedy"),
    [
        (REFUSED, 255, "ssh-copy-id"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", 255, "ssh "),
        ("sudo: a password is required", 1, "sudo"),
        ("Error: something else", 1, ""),
    ],
)
def test_a_host_that_does_not_answer_has_its_reason_and_a_remedy(says: str, code: int, remedy: str) -> None:
    (answer,) = query_hosts("train:1", [ends("h1", says, code)])
    assert (answer.host, answer.error, answer.content) == ("h1", says, "")
    assert remedy in answer.remedy
    assert bool(answer.remedy) is bool(remedy)


def test_an_image_that_is_not_there_is_no_failure() -> None:
    assert query_hosts("train:1", [ends("h1", "Error: No such image: train:1", 1)]) == [HostImage("h1")]


DOCKER = """#!/bin/sh
echo "$*" >>"$0.log"
case "$*" in
  "image inspect train:1")
    test -e "$0.named" || { echo "Error: No such image: train:1" >&2; exit 1; }
    cat "$0.json" ;;
  "image inspect sha256:1")
    test -e "$0.json" || { echo "Error: No such image: sha256:1" >&2; exit 1; }
    cat "$0.json" ;;
  "image tag sha256:1 train:1" | load) touch "$0.named" ;;
esac
"""


def host_with(directory: Path, *, content: str) -> HostAccess:
    """A host whose docker knows image sha256:1 with this content (empty: no image), and no train:1."""
    directory.mkdir()
    (directory / "docker").write_text(DOCKER)
    (directory / "docker").chmod(0o755)
    if content:
        (directory / "docker.json").write_text(json.dumps([{"RootFS": {"Layers": [content]}, "Config": {}}]))
    return HostAccess(directory.name, ("env", f"PATH={directory}:/usr/bin:/bin", "sh", "-c"))


def test_a_host_with_the_content_under_another_name_gets_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent the whole image again."""
    local = SimpleNamespace(id="sha256:1", attrs={"RootFS": {"Layers": ["a"]}, "Config": {}})
    monkeypatch.setattr(archive, "local_image", lambda image: local)
    has = host_with(tmp_path / "h1", content="a")
    result = archive.load("train:1", [has], progress=SilentListener())
    assert (result.sent, result.present) == ((), ("h1",))
    said = (tmp_path / "h1/docker.log").read_text().splitlines()
    assert [line for line in said if line != "version"] == [
        "image inspect train:1",
        "image inspect sha256:1",
        "image tag sha256:1 train:1",
    ]
    others = [host_with(tmp_path / "h2", content="b"), host_with(tmp_path / "h3", content="")]
    lacking = archive._without_named(cast(Any, local), "train:1", others, progress=SilentListener())
    assert lacking == others


def test_failed_hosts_are_one_error_with_their_remedies() -> None:
    raise_failures("train:1", [])
    hosts = [ends("h1", REFUSED, 255), ends("h2", REFUSED, 255), ends("h3", "Error: no", 1)]
    with pytest.raises(HostNotReady, match="did not reach 3 hosts") as raised:
        query_all_hosts("train:1", hosts, progress=SilentListener())
    assert f"  h1, h2: {REFUSED}\n  h3: Error: no" in raised.value.message
    assert "ssh-copy-id" in raised.value.hint
    assert raised.value.hosts == ("h1", "h2", "h3")
