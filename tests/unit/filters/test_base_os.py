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


OWN = "/etc/sysctl.d/90-ddp-play.conf"
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
    assert base_os.sysctl(host, WANTED, container, OWN) == {name: TEXTS[name] for name in names}
    assert base_os.sysctl(host, {}, container, OWN) == {}


@pytest.mark.parametrize(
    ("there", "ours", "kept"),
    [
        ("4095", "", False),
        ("65535", "", True),  # of the site
        ("65535", "net.core.somaxconn = 4096\n", True),  # a file of the site that comes after the role's
        ("65535", "# x\nnet.core.somaxconn = 65535\n", False),  # of the role, which wants less now
        ("", "", False),
    ],
)
def test_what_the_host_has_more_of_is_not_lowered(there: str, ours: str, kept: bool) -> None:
    host = state(somaxconn={"type": "file", "mode": "0644", "content": there + "\n"})
    host["files"][OWN] = {"type": "file", "content": ours} if ours else {"type": "absent", "content": ""}
    assert ("net.core.somaxconn" not in base_os.sysctl(host, WANTED, False, OWN)) is kept


def test_other_settings_are_as_wanted_whatever_the_host_has() -> None:
    host = state(max_map_count={"type": "file", "mode": "0644", "content": "999999\n"})
    assert base_os.sysctl(host, WANTED, False, OWN) == TEXTS


def test_hard_limits_of_the_host_stay_where_no_higher_one_is_needed() -> None:
    """`* - stack 8192` took every user's right to `ulimit -s unlimited`, and nofile the room above it."""
    wanted = {"memlock": "unlimited", "nofile": 131072, "stack": 8192, "nproc": 4096}
    assert base_os.limits(wanted) == ["- memlock unlimited", "soft nofile 131072", "soft stack 8192", "- nproc 4096"]
    assert base_os.limits({"nofile": "1048576", "stack": "unlimited"}) == ["- nofile 1048576", "- stack unlimited"]


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
