"""Images: what is built from what, how hosts are reached, when two contents are the same."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.images.content import fingerprint
from ddp_play.images.recipe import DEFAULT_TAG, SLIM_TAG, ImageRequest, pip_download_argv, requirements
from ddp_play.images.ssh_access import Reach, parse_inventory, ssh_argv

LISTING: dict[str, Any] = {
    "_meta": {"hostvars": {"b": {"ansible_host": "10.0.0.2"}, "a": {"ansible_connection": "local"}}},
    "all": {"children": ["ungrouped", "ranks", "spares"]},
    "ranks": {"children": ["gpu"], "hosts": ["b"]},
    "gpu": {"hosts": ["a", "b"]},
    "spares": {"hosts": ["c"]},
}


def test_tags() -> None:
    assert ImageRequest().result_tag == DEFAULT_TAG
    assert ImageRequest(slim=True).result_tag == SLIM_TAG
    assert ImageRequest(tag="team/train:2").result_tag == "team/train:2"


@pytest.mark.parametrize(
    ("request_", "wheels"),
    [(ImageRequest(), False), (ImageRequest(offline=True), True), (ImageRequest(offline=True, slim=True), False)],
)
def test_wheels_are_needed_for_a_base_without_torch(request_: ImageRequest, wheels: bool) -> None:
    assert request_.needs_wheels is wheels


def test_wheels_for_the_same_python_are_the_controllers_versions() -> None:
    assert requirements(torch="2.13.0", numpy="2.4.6", same_python=True) == ["pip", "torch==2.13.0", "numpy==2.4.6"]
    assert pip_download_argv("py", ["x"], "d", version="3.11", same_python=True)[-3:] == ["--dest", "d", "x"]


def test_wheels_for_another_python_are_asked_for_by_version() -> None:
    assert requirements(torch="2.13.0", numpy="2.4.6", same_python=False) == ["pip", "torch==2.13.0", "numpy"]
    argv = pip_download_argv("py", ["x"], "d", version="3.13", same_python=False)
    assert argv[argv.index("--python-version") + 1] == "3.13"
    assert "--only-binary=:all:" in argv


def test_the_hosts_are_those_of_group_ranks_each_once() -> None:
    assert [host.name for host in parse_inventory(LISTING)] == ["b", "a"]
    assert [host.name for host in parse_inventory({**LISTING, "all": {"hosts": ["c"]}, "ranks": {}})] == []
    without = {key: value for key, value in LISTING.items() if key != "ranks"}
    assert [host.name for host in parse_inventory(without)] == ["c"]


def test_connection_variables_become_ssh_options() -> None:
    variables = {
        "ansible_host": "10.0.0.2",
        "ansible_port": 2222,
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": "/k/id",
        "ansible_ssh_common_args": "-o 'UserKnownHostsFile=\"/a home/known\"' -o ProxyJump=h1",
    }
    argv = ssh_argv("b", variables)
    assert argv[-1] == "10.0.0.2"
    assert 'UserKnownHostsFile="/a home/known"' in argv
    assert [argv[argv.index(option) + 1] for option in ("-p", "-l", "-i")] == ["2222", "ops", "/k/id"]
    assert ssh_argv("a", {"ansible_connection": "local"}) == ()


def test_a_local_host_runs_the_command_here() -> None:
    assert Reach("a", ()).run("printf hello").stdout == b"hello"


def test_content_ignores_the_id_and_sees_layers_and_configuration() -> None:
    image = {"Id": "sha256:1", "RootFS": {"Layers": ["a", "b"]}, "Config": {"Env": ["X=1"], "Cmd": None}}
    assert fingerprint(image) == fingerprint({**image, "Id": "sha256:2", "Config": {"Env": ["X=1"], "Cmd": []}})
    assert fingerprint(image) != fingerprint({**image, "RootFS": {"Layers": ["a"]}})
    assert fingerprint(image) != fingerprint({**image, "Config": {"Env": ["X=2"]}})
