"""Notes about what hosts expect of each other; whatever is not known for certain has none."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.inventory_expectations import UnknownValueError, check_expectations, known_value

ADDRESSES = {"h1": ("10.1.0.1",), "h2": ("10.1.0.2",), "h3": ("192.168.5.3",), "nas": ("10.1.0.9",)}
MOUNT = {"server": "nas", "path": "/srv/ddp", "mountpoint": "/mnt/ddp"}
EXPORT = {"path": "/srv/ddp", "clients": ["10.1.0.0/16"]}


def site(servers: tuple[str, ...] = ("nas",), ranks: tuple[str, ...] = ("h1", "h2"), **variables: Any) -> Inventory:
    groups = (
        Group("all", (), ("ranks", "nfs_server"), variables),
        Group("ranks", ranks),
        Group("nfs_server", servers),
    )
    return Inventory({group.name: group for group in groups}, {"nas": {}} if servers else {})


def notes(inventory: Inventory, addresses: dict[str, tuple[str, ...]] | None = None) -> list[str]:
    found = check_expectations(inventory, ADDRESSES if addresses is None else addresses)
    assert {row.severity for row in found} <= {"note"}
    return [str(row) for row in found]


WHOLE: dict[str, Any] = {
    "subnets": ["10.1.0.0/16"],
    "base_os_firewall": True,
    "base_os_firewall_subnets": "{{ subnets }}",
    "nfs_client_mounts": [MOUNT],
    "nfs_server_exports": [{"path": "/srv/ddp", "clients": "{{ subnets }}"}],
    "ddp_shared_dir": "/mnt/ddp/team",
}


def test_a_whole_site_has_no_notes() -> None:
    assert notes(site(**WHOLE)) == []
    assert notes(site(), {}) == []


def test_a_host_outside_the_subnets_in_which_the_others_are() -> None:
    [found] = notes(site(ranks=("h1", "h3"), base_os_firewall=True, base_os_firewall_subnets=["10.1.0.0/16"]))
    assert found == (
        "note: host h3: its address 192.168.5.3 is in none of base_os_firewall_subnets (10.1.0.0/16); "
        "other hosts are, and would drop what it sends: add its subnet, or correct ansible_host"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"base_os_firewall": False},
        {"base_os_firewall_subnets": ["192.168.0.0/16", "10.1.0.0/16"]},
        {"base_os_firewall_subnets": ["172.16.0.0/12"]},  # SSH has a network of its own
        {"base_os_firewall_subnets": "{{ subnets | default([]) }}"},
        {"base_os_firewall_subnets": ["not a subnet"]},
    ],
)
def test_no_note_about_subnets(changed: dict[str, Any]) -> None:
    values = {"base_os_firewall": True, "base_os_firewall_subnets": ["10.1.0.0/16"], **changed}
    assert notes(site(ranks=("h1", "h3"), **values)) == []


@pytest.mark.parametrize(
    ("servers", "mount", "exports", "expected"),
    [
        (("nas",), MOUNT, [EXPORT], ""),
        (("nas",), {**MOUNT, "server": "10.1.0.9"}, [EXPORT], ""),
        (("nas",), {**MOUNT, "path": "/srv/ddp/team"}, [EXPORT], ""),
        (("nas",), MOUNT, "{{ exports | list }}", ""),
        ((), MOUNT, [EXPORT], "the server nas of /mnt/ddp is not in group nfs_server; add it there"),
        (("nas",), {**MOUNT, "server": "filer"}, [EXPORT], "the server filer of /mnt/ddp is no host of this inventory"),
        (("nas",), {**MOUNT, "path": "/srv/other"}, [EXPORT], "the server nas exports /srv/ddp, not /srv/other"),
        (("nas",), {"server": "nas"}, [EXPORT], ""),  # the rules for values name what it lacks
    ],
)
def test_servers(servers: tuple[str, ...], mount: dict[str, str], exports: Any, expected: str) -> None:
    inventory = site(servers=servers, nfs_client_mounts=[mount], nfs_server_exports=exports)
    if not servers:  # a host of another group
        groups = {**inventory.groups, "others": Group("others", ("nas",))}
        inventory = Inventory(groups, inventory.host_variables)
    found = notes(inventory)
    assert len(found) == bool(expected)
    assert not expected or (found[0].startswith("note: hosts h[1-2] (nfs_client_mounts): ") and expected in found[0])


def test_a_client_that_the_server_would_refuse() -> None:
    [found] = notes(site(ranks=("h1", "h3"), nfs_client_mounts=[MOUNT], nfs_server_exports=[EXPORT]))
    assert found.startswith(
        "note: host h3: not in the clients of /srv/ddp on nas (10.1.0.0/16); the server would refuse"
    )


@pytest.mark.parametrize("clients", [["*"], ["h1", "h3"], "10.1.0.0/16"])
def test_clients_that_are_no_subnets_are_not_judged(clients: Any) -> None:
    export = {"path": "/srv/ddp", "clients": clients}
    assert notes(site(ranks=("h1", "h3"), nfs_client_mounts=[MOUNT], nfs_server_exports=[export])) == []


def test_a_shared_directory_that_nobody_mounts() -> None:
    [found] = notes(site(ddp_shared_dir="/mnt/ddp", nfs_client_mounts=[{**MOUNT, "mountpoint": "/mnt/ddp2"}],
                         nfs_server_exports=[EXPORT]))  # fmt: skip
    assert found.startswith("note: hosts h[1-2]: nothing in this inventory mounts /mnt/ddp (ddp_shared_dir); set nfs_")


def test_one_host_shares_with_nobody() -> None:
    assert notes(site(ranks=("h1",), ddp_shared_dir="/mnt/ddp")) == []


def test_references_are_filled_in_and_all_else_is_unknown() -> None:
    inventory = site(
        a="{{ b }}/x",
        b="{{ c }}",
        c="/srv",
        loop="{{ loop }}",
        rows=[{"k": "{{ c }}"}],
        host="{{ inventory_hostname }}",
    )
    assert known_value(inventory, "h1", "a") == "/srv/x"
    assert known_value(inventory, "h1", "rows") == [{"k": "/srv"}]
    assert known_value(inventory, "h1", "host") == "h1"
    assert known_value(inventory, "h1", "absent", "default") == "default"
    for name in ("loop", "filtered", "gone"):
        odd = {"loop": "{{ loop }}", "filtered": "{{ c | upper }}", "gone": "{{ nobody }}"}
        with pytest.raises(UnknownValueError):
            known_value(site(**{"c": "x", **odd}), "h1", name)  # type: ignore[arg-type]
