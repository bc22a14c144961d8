"""Findings about inventories; a correct inventory has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.inventory_rules import check_addresses, check_groups, check_variables, host_addresses

SPECS: dict[str, dict[str, Any]] = {
    "docker_engine": {
        "docker_engine_source": {"type": "str", "choices": ["vendor", "distribution"]},
        "docker_engine_hold": {"type": "bool"},
        "docker_engine_mirror_url": {"type": "str"},
    },
    "nccl": {"nccl_conf": {"type": "dict"}},
    "ddp_job": {"ddp_job_image": {"type": "str"}},
}
GROUPS = ("ranks", "spares", "nfs_server")


def inventory(files: tuple[Path, ...] = (), **variables: Any) -> Inventory:
    ranks = Group("ranks", ("h1", "h2"), (), variables)
    return Inventory({"all": Group("all", (), ("ranks",)), "ranks": ranks}, {}, files)


def messages(**variables: Any) -> list[str]:
    return [str(row) for row in check_variables(inventory(**variables), SPECS)]


def test_nothing_to_correct() -> None:
    good = inventory(docker_engine_source="vendor", ddp_slots=2, cluster_subnets=["10.0.0.0/8"], ansible_user="x")
    assert check_variables(good, SPECS) == ()
    assert check_groups(good, GROUPS) == ()


def test_an_unknown_name_with_the_nearest() -> None:
    assert messages(docker_engine_sorce="vendor") == [
        "group ranks: unknown variable docker_engine_sorce; did you mean docker_engine_source?"
    ]


def test_a_misspelt_prefix_and_a_ddp_variable() -> None:
    assert "did you mean docker_engine_source?" in messages(docker_engin_source="vendor")[0]
    assert "did you mean ddp_slots?" in messages(ddp_slot=2)[0]


def test_an_unknown_name_without_a_similar_one_has_the_command_for_the_list() -> None:
    assert messages(nccl_zzzzzzzz=1) == [
        "group ranks: unknown variable nccl_zzzzzzzz; ansible-doc -t role ddp.play.nccl lists the variables"
    ]


def test_a_value_of_a_host() -> None:
    found = check_variables(
        Inventory({"ranks": Group("ranks", ("h1",))}, {"h1": {"docker_engine_source": "vender"}}), SPECS
    )
    assert [(row.kind, row.where) for row in found] == [("value", "host h1")]
    assert "one of vendor, distribution" in found[0].message


@pytest.mark.parametrize("value", [0, -1, "abc", 1.5, "2x", [], True])
def test_slots_are_a_whole_number_from_1_up(value: Any) -> None:
    assert messages(ddp_slots=value) == [f"group ranks: ddp_slots is {value!r}; it must be a whole number from 1 up"]


@pytest.mark.parametrize("value", [1, "8", None, "", "{{ gpus }}", {"__ansible_vault": "x"}, 2.0])
def test_slots_that_a_host_may_have(value: Any) -> None:
    assert messages(ddp_slots=value) == []


def test_the_file_and_line_are_named(tmp_path: Path) -> None:
    path = tmp_path / "group_vars" / "ranks.yml"
    path.parent.mkdir()
    path.write_text("---\n# docker_engine_hold: yes\ndocker_engine_hold: perhaps\n")
    found = check_variables(inventory((path,), docker_engine_hold="perhaps"), SPECS)
    assert found[0].where == "group ranks (group_vars/ranks.yml:3)"


def test_a_proxy_is_known_everywhere_and_its_password_is_refused_unseen() -> None:
    assert messages(ddp_proxy="http://proxy:3128", ddp_no_proxy=[".example.com"]) == []
    (found,) = messages(ddp_proxy="http://ops:hunter2@proxy:3128")
    assert "ddp_proxy has a user name or a password" in found
    assert "hunter2" not in found
    assert "did you mean ddp_proxy?" in messages(ddp_poxy="http://proxy:3128")[0]


def test_a_mirror_is_known_everywhere_and_its_password_is_refused_unseen() -> None:
    assert messages(ddp_mirror_url="https://mirror.site.example", docker_engine_mirror_url="file:///srv/mirror") == []
    for name in ("ddp_mirror_url", "docker_engine_mirror_url"):
        (found,) = messages(**{name: "https://ops:hunter2@mirror.site.example"})
        assert f"{name} has a user name or a password" in found
        assert "hunter2" not in found
    assert "did you mean docker_engine_mirror_url?" in messages(docker_engine_repo_url="file:///srv")[0]


# -- values --------------------------------------------------------------------------------------------


# -- groups and addresses ------------------------------------------------------------------------------


def test_no_ranks_and_nearly_ranks() -> None:
    found = check_groups(Inventory({"rank": Group("rank", ("h1",))}, {}), GROUPS)
    assert [row.kind for row in found] == ["misspelt_group", "missing_group"]
    assert found[0].hint == "did you mean ranks?"


def test_a_host_whose_name_cannot_be_that_of_a_file() -> None:
    found = check_groups(Inventory({"ranks": Group("ranks", ("rack1/h1", "h2", ".."))}, {}), GROUPS)
    assert [(row.kind, row.where) for row in found] == [("host_name", "host rack1/h1"), ("host_name", "host ..")]
    assert found[0].hint == "rename it in the inventory, and put its address into ansible_host"


def test_groups_of_the_site_are_not_checked() -> None:
    groups = {"ranks": Group("ranks", ("h1",)), "rack1": Group("rack1", ("h1",)), "rank": Group("rank", ("h1",))}
    assert check_groups(Inventory(groups, {}), GROUPS) == ()


def test_a_file_that_belongs_to_no_group_or_host() -> None:
    names = ("group_vars/rank.yml", "group_vars/ranks/x.yml", "host_vars/h1", "host_vars/h9.yml", "group_vars/x.md")
    found = check_groups(inventory(tuple(Path("/site", name) for name in names)), GROUPS)
    assert [row.where for row in found] == ["group_vars/rank.yml", "host_vars/h9.yml"]
    assert found[0].hint == "did you mean ranks?"


def addresses(**hosts: dict[str, Any]) -> list[str]:
    names = {"node-a": ("10.0.0.1",), "alias-a": ("10.0.0.1",)}
    site = Inventory({"ranks": Group("ranks", tuple(hosts))}, hosts)
    found = check_addresses(site, host_addresses(site, lambda name, _: names.get(name, ())))
    return [str(row) for row in found]


def test_addresses_of_their_own() -> None:
    assert addresses(a={"ansible_host": "10.0.0.1"}, b={"ansible_host": "10.0.0.2"}) == []
    assert addresses(a={"ansible_host": "::1", "ansible_port": 1}, b={"ansible_host": "::1", "ansible_port": 2}) == []
    assert addresses(a={"ansible_connection": "local"}, b={"ansible_host": "{{ site }}"}) == []


@pytest.mark.parametrize("other", ["10.0.0.1", "alias-a"])
def test_two_hosts_with_one_address(other: str) -> None:
    found = addresses(a={"ansible_host": "node-a"}, b={"ansible_host": other})
    assert found == ["host b: has the address of a (10.0.0.1, port 22); correct ansible_host of one of them"]


def test_a_name_that_cannot_be_resolved() -> None:
    assert "host gone: the name gone cannot be resolved" in addresses(gone={})[0]
