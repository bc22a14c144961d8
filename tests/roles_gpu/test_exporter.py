"""nvidia_driver where role monitoring's exporter of GPU metrics runs, with stubs of its unit and of Docker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.roles_gpu.driver_plays import play, unreachable, versions
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.hosts import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

OLD, NEW = "580.105.08", "580.178.04"
UNIT = "ddp-dcgm-exporter.service"
BROKEN_DPKG = "/etc/dpkg/dpkg.cfg.d/broken"  # no package can be installed, though a simulation succeeds
ID = "a1" * 32
# Docker lists the containers that count, here none, and with a filter the exporter's.
DOCKER = f'#!/bin/sh\\ncase "$*" in *name=^/ddp-dcgm-exporter*) echo {ID} ;; esac\\n'
SERVICE = "[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n"


@pytest.fixture(autouse=True)
def exporter(host: Host) -> Iterator[None]:
    """It runs and has a GPU open, on a host with the old driver."""
    show(host, OLD, ID)
    host.sh(f"printf '{DOCKER}' > /usr/local/bin/docker; chmod +x /usr/local/bin/docker")
    host.sh(f"printf '{SERVICE}' > /etc/systemd/system/{UNIT}; systemctl daemon-reload; systemctl enable --now {UNIT}")
    outcome = play(host, version=OLD)
    assert outcome.rc == 0, outcome.text
    yield
    host.sh(f"systemctl disable --now {UNIT}; rm /etc/systemd/system/{UNIT} /usr/local/bin/docker")


def show(host: Host, loaded: str, container: str) -> None:
    """GPUs, and a process of this container that holds one."""
    host.show(Hardware(loaded=loaded))
    folder = "/opt/hardware/proc/4242"
    host.sh(f"mkdir -p {folder}/fd; ln -s /dev/nvidia0 {folder}/fd/7; echo dcgm-exporter > {folder}/comm")
    host.sh(f"echo 0::/system.slice/docker-{container}.scope > {folder}/cgroup")


def starts(host: Host) -> list[str]:
    """Whether it runs, and the start that it runs since."""
    return host.sh(f"systemctl show --value -p ActiveState,InvocationID {UNIT}").split()


def test_it_is_stopped_for_a_change_and_runs_after_it(host: Host) -> None:
    before = starts(host)
    show(host, NEW, ID)
    outcome = play(host, version=NEW)
    assert outcome.rc == 0, outcome.text
    assert set(versions(host).values()) == {f"{NEW}-1"}
    after = starts(host)
    assert after != before
    assert "active" in after
    second = play(host, version=NEW)
    assert (second.rc, second.changed) == (0, 0), second.text
    assert starts(host) == after, "nothing changed, so it was not stopped"


def test_it_is_not_stopped_for_packages_that_cannot_be_had(host: Host) -> None:
    before = starts(host)
    with unreachable(host):
        outcome = play(host, version=NEW, mirror_url="file:///srv/none")
    assert outcome.rc != 0
    assert set(versions(host).values()) == {f"{OLD}-1"}
    assert starts(host) == before


def test_it_runs_after_a_change_that_failed(host: Host) -> None:
    before = starts(host)
    host.sh(f"echo pre-invoke=/bin/false > {BROKEN_DPKG}")
    try:
        outcome = play(host, version=NEW)
    finally:
        host.sh(f"rm {BROKEN_DPKG}")
    assert outcome.rc != 0
    assert set(versions(host).values()) == {f"{OLD}-1"}
    after = starts(host)
    assert after != before
    assert "active" in after


def test_a_process_with_its_name_outside_of_its_container_keeps_the_driver(host: Host) -> None:
    before = starts(host)
    show(host, OLD, "b2" * 32)
    outcome = play(host, version=NEW)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert "GPUs are in use by dcgm-exporter pid 4242" in outcome.text
    assert set(versions(host).values()) == {f"{OLD}-1"}
    assert starts(host) == before
