"""All checks of an inventory, with functions in place of Ansible and the resolver."""

from __future__ import annotations

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.inventory_check import check_inventory, resolve_name

REQUEST = PlaybookRequest("/x.yml", ("/inv",), "/")


def kinds(inventory: Inventory, request: PlaybookRequest = REQUEST) -> list[str]:
    checked = check_inventory(
        request, Passwords(), load=lambda _request, _passwords: inventory, resolve=lambda _name, _arguments: ()
    )
    assert checked.to_json()["exit_class"] == ("usage" if checked.errors else "done")
    return [row.kind for row in checked.findings]


def test_everything_wrong_is_listed_at_once() -> None:
    hosts = {"a": {"ansible_host": "10.0.0.1"}, "b": {"ansible_host": "10.0.0.1"}, "c": {}}
    groups = {"rank": Group("rank", ("a", "b", "c"), (), {"base_os_firewal": True, "base_os_packages": {}})}
    assert set(kinds(Inventory(groups, hosts))) == {
        "misspelt_group", "missing_group", "unknown_variable", "value", "same_address", "no_address",
    }  # fmt: skip


def test_groups_are_not_checked_with_a_limit() -> None:
    inventory = Inventory({"nfs_server": Group("nfs_server", ("a",))}, {"a": {"ansible_host": "10.0.0.1"}})
    assert kinds(inventory) == ["missing_group"]
    assert kinds(inventory, PlaybookRequest("/x.yml", ("/inv",), "/", options=("--limit", "a"))) == []


def test_commands_in_notes_name_the_inventory() -> None:
    inventory = Inventory({"ranks": Group("ranks", ("a", "b"), (), {"ddp_shared_dir": "/data"})}, {"a": {}, "b": {}})
    checked = check_inventory(
        REQUEST,
        Passwords(),
        load=lambda _request, _passwords: inventory,
        resolve=lambda name, _: (f"10.0.0.{ord(name)}",),
    )
    assert [row.kind for row in checked.notes] == ["shared_directory"]
    assert "ddp-play doctor -i /inv shows" in checked.notes[0].hint


def test_this_machine_resolves() -> None:
    assert resolve_name("localhost", "")
