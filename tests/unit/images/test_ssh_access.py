"""ssh command lines for the hosts of an inventory."""

from __future__ import annotations

from typing import Any

from ddp_play.images.ssh_access import HostAccess, parse_inventory, ssh_argv

LISTING: dict[str, Any] = {
    "_meta": {"hostvars": {"b": {"ansible_host": "10.0.0.2"}, "a": {"ansible_connection": "local"}}},
    "all": {"children": ["ungrouped", "ranks", "spares"]},
    "ranks": {"children": ["gpu"], "hosts": ["b"]},
    "gpu": {"hosts": ["a", "b"]},
    "spares": {"hosts": ["c"]},
}


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
    assert HostAccess("a", ()).run("printf hello").stdout == b"hello"
