"""Groups, hosts, variables and patterns of an inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.provisioning.inventory import Inventory, matching_hosts, parse_inventory, variable_files

DOCUMENT = {
    "_meta": {"hostvars": {"a": {"port": 1}}},
    "all": {"children": ["ungrouped", "ranks", "spares", "storage"], "vars": {"port": 9, "user": "ops"}},
    "ranks": {"hosts": ["a", "b"], "vars": {"user": "trainer"}},
    "storage": {"children": ["nfs_server"]},
    "nfs_server": {"hosts": ["s", "b"]},
}
INVENTORY = parse_inventory(DOCUMENT)


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("ranks", ("a", "b")),
        ("ranks:spares:nfs_server", ("a", "b", "s")),
        ("ranks:!nfs_server", ("a",)),
        ("ranks,&nfs_server", ("b",)),
        ("all", ("a", "b", "s")),
        ("!ranks", ("s",)),
        ("r*", ("a", "b")),
        ("s", ("s",)),
        ("storage", ("s", "b")),
        ("spares", ()),
        ("nobody", ()),
    ],
)
def test_patterns(pattern: str, hosts: tuple[str, ...]) -> None:
    assert set(matching_hosts(pattern, INVENTORY)) == set(hosts)


def test_groups_without_an_entry_are_empty() -> None:
    assert INVENTORY.members("spares") == ()
    assert INVENTORY.hosts == ("a", "b", "s")


@pytest.mark.parametrize(
    ("host", "name", "value"),
    [("a", "port", 1), ("b", "port", 9), ("a", "user", "trainer"), ("s", "user", "ops"), ("s", "nothing", None)],
)
def test_the_smallest_group_takes_precedence(host: str, name: str, value: object) -> None:
    assert INVENTORY.value(host, name) == value


def test_files_of_variables_are_found_next_to_a_file_and_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "group_vars" / "all").mkdir(parents=True)
    (tmp_path / "host_vars").mkdir()
    for name in ("group_vars/all/main.yml", "host_vars/a.yml", "hosts.yml"):
        (tmp_path / name).write_text("{}")
    names = [str(path.relative_to(tmp_path)) for path in variable_files((str(tmp_path),))]
    assert names == ["group_vars/all/main.yml", "host_vars/a.yml"]
    assert variable_files((str(tmp_path / "hosts.yml"), "h1,h2,")) == variable_files((str(tmp_path),))


def test_an_empty_inventory() -> None:
    assert Inventory({}, {}).hosts == ()
