"""Kernel settings: which ones a container may set, and which ones the kernel does not have."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import base_os

WANTED = {"net.ipv4.ip_local_port_range": "32768 60999", "net.core.somaxconn": 4096, "vm.max_map_count": 262144}
TEXTS = {"net.ipv4.ip_local_port_range": "32768 60999", "net.core.somaxconn": "4096", "vm.max_map_count": "262144"}


def state(**changed: dict[str, str]) -> dict[str, Any]:
    files = {
        "/proc/sys/net/ipv4/ip_local_port_range": {"type": "file", "mode": "0644", "content": "32768\t60999\n"},
        "/proc/sys/net/core/somaxconn": {"type": "file", "mode": "0644", "content": "4096\n"},
        "/proc/sys/vm/max_map_count": {"type": "file", "mode": "0644", "content": "262144\n"},
    }
    return {"files": {path: changed.get(path.rpartition("/")[2], found) for path, found in files.items()}}


ABSENT = {"type": "absent", "content": ""}
READ_ONLY = {"type": "file", "mode": "0444", "content": "4096\n"}


@pytest.mark.parametrize(
    ("host", "container", "names"),
    [
        (state(), False, list(WANTED)),
        (state(somaxconn=ABSENT), False, list(WANTED)),
        (state(), True, ["net.ipv4.ip_local_port_range", "net.core.somaxconn"]),
        (state(somaxconn=ABSENT), True, ["net.ipv4.ip_local_port_range"]),
        (state(somaxconn=READ_ONLY), True, ["net.ipv4.ip_local_port_range"]),
    ],
)
def test_settings_of_the_role(host: dict[str, Any], container: bool, names: list[str]) -> None:
    assert base_os.sysctl(host, WANTED, container) == {name: TEXTS[name] for name in names}
    assert base_os.sysctl(host, {}, container) == {}


@pytest.mark.parametrize(
    ("host", "wrong"),
    [
        (state(), []),
        (state(somaxconn={"type": "file", "mode": "0644", "content": "128\n"}), ["net.core.somaxconn"]),
        (state(max_map_count=ABSENT), ["vm.max_map_count"]),
        (
            state(ip_local_port_range={"type": "file", "mode": "0644", "content": "1024\t60999\n"}),
            ["net.ipv4.ip_local_port_range"],
        ),
    ],
)
def test_settings_that_differ(host: dict[str, Any], wrong: list[str]) -> None:
    assert base_os.sysctl_wrong(host, TEXTS) == wrong
    assert base_os.sysctl_wrong(host, {}) == []
