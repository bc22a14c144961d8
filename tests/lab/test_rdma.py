"""Role rdma on a real host: a hung engine keeps it away, and only the named interface is brought up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .busy_host import HARDWARE, HOST, at_work, lived_in, provision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

# mgmt0 stands for the interface that Ansible comes over; the hook tells which interfaces ifupdown brought up.
INTERFACES = "auto mgmt0\\niface mgmt0 inet static\\n  address 10.250.0.1/24\\nsource /etc/network/interfaces.d/*\\n"
LINKS = (
    "apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends ifupdown"
    f" >/dev/null 2>&1; printf '{INTERFACES}' > /etc/network/interfaces; mkdir -p {HARDWARE}/sys/class/net/ib0;"
    " for link in ib0 mgmt0; do ip link add $link type veth peer name $link-far; ip link set $link-far up; done;"
    " ip address add 10.250.0.1/24 dev mgmt0; ip link set mgmt0 up;"
    " printf '#!/bin/sh\\necho $IFACE >> /run/brought-up\\n' > /etc/network/if-pre-up.d/log;"
    " chmod +x /etc/network/if-pre-up.d/log"
)
NO_LINKS = (
    "ip link del ib0; ip link del mgmt0; apt-get -qq purge -y ifupdown >/dev/null 2>&1;"
    " rm -rf /etc/network /run/brought-up"
)


@pytest.fixture(scope="module")
def site(lab3: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inventory of a host with a history."""
    with lived_in(lab3, tmp_path_factory.mktemp("rdma")) as path:
        yield path


def test_a_hung_engine_counts_as_busy(lab3: Lab, site: Path) -> None:
    hung, well = ("systemctl kill --signal=STOP docker", "systemctl kill --signal=CONT docker")
    with at_work(lab3, hung, well):
        cell = provision(lab3, site, "rdma")["rdma"]
    assert cell["status"] == "skipped"
    assert cell["reason"].startswith("pending: install ibverbs-providers")
    assert "the Docker engine does not answer" in cell["reason"]


def test_only_the_named_interface_is_brought_up(lab3: Lab, site: Path) -> None:
    with at_work(lab3, LINKS, NO_LINKS):
        for address in ("10.251.0.11/16", "10.251.0.12/16"):  # the address from before goes
            wanted: dict[str, Any] = {"rdma_ipoib": [{"interface": "ib0", "address": address}], "rdma_verify": False}
            cell = provision(lab3, site, "rdma", __rdma_missing=[], **wanted)["rdma"]
            assert cell["status"] == "changed", cell
            assert lab3.on(HOST, "sort -u /run/brought-up", user="root") == "ib0"
            shown = lab3.on(HOST, "ip -brief -4 address show ib0; ip -brief -4 address show mgmt0")
            assert [line.split()[2:] for line in shown.splitlines()] == [[address], ["10.250.0.1/24"]]
        assert provision(lab3, site, "rdma", __rdma_missing=[], **wanted)["rdma"]["status"] == "ok"
