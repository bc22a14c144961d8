"""nvidia_driver on a bare host: what it skips, refuses or leaves pending, with nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu.driver_plays import LOADED, play, rank_running, versions
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from tests.roles_gpu.hosts import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def test_no_gpu_is_skipped_with_the_reason(host: Host) -> None:
    host.show(Hardware(gpus=()))
    outcome = play(host)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert "skipped: nvidia_driver: no NVIDIA GPU found in sysfs (1 PCI devices" in outcome.text


@pytest.mark.parametrize("tasks_from", ["main", "verify"])
def test_gpus_that_have_gone_are_no_reason_to_skip(host: Host, tasks_from: str) -> None:
    host.show(Hardware(gpus=()))
    outcome = play(host, tasks_from=tasks_from, expected_gpus=8)
    assert outcome.rc != 0
    assert outcome.changed == 0
    assert "nvidia_driver_expected_gpus is 8, but no NVIDIA GPU found in sysfs (1 PCI devices" in outcome.text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"branch": "535"}, "535 is refused: past its end of life since June 2026"),
        ({"branch": "999"}, "999 is refused: this role does not know it. Offered: 580, 595"),
        ({"mirror_url": "https://ops:hunter2@mirror.example.invalid"}, "has a user name or a password"),
        ({"branch": "570", "allow_unlisted_branch": True}, "too old: torch 2.13.0 needs 580"),
        ({"source": "distribution"}, "too old: torch 2.13.0 needs 580"),
        ({"flavour": "nonsense"}, "value of nvidia_driver_flavour must be one of"),
    ],
)
def test_refusals_change_nothing(host: Host, changes: dict[str, Any], reason: str) -> None:
    host.show(LOADED)
    outcome = play(host, **changes)
    assert outcome.rc != 0
    assert outcome.changed == 0
    assert reason in outcome.text
    assert "hunter2" not in outcome.text


@pytest.mark.parametrize(
    ("hardware", "changes", "reason"),
    [
        (Hardware(secure_boot=True), {}, "Secure boot is on"),
        (Hardware(gpus=(0x2901,)), {"flavour": "proprietary"}, "blackwell or newer (they share: open"),
        (Hardware(gpus=(0x2901, 0x1DB1)), {}, "they share: nothing"),
        (
            Hardware(gpus=(0x1DB1,)),
            {"branch": "595"},
            "before Turing needs proprietary modules up to branch 580",
        ),
        (Hardware(gpus=(0x1DB1,)), {"flavour": "open"}, "volta (they share: proprietary"),
        (
            Hardware(num_nvswitches=4),
            {"source": "distribution", "torch_version": ""},
            "no fabric manager of its own",
        ),
    ],
)
def test_hardware_that_cannot(host: Host, hardware: Hardware, changes: dict[str, Any], reason: str) -> None:
    host.show(hardware)
    outcome = play(host, **changes)
    assert outcome.rc != 0
    assert outcome.changed == 0
    assert reason in outcome.text


def test_gpus_in_use_are_left_alone(host: Host) -> None:
    host.show(LOADED)
    host.sh("mkdir -p /opt/hardware/proc/4242/fd && ln -s /dev/nvidia0 /opt/hardware/proc/4242/fd/7")
    host.sh("echo python3 > /opt/hardware/proc/4242/comm")
    outcome = play(host)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert "skipped: nvidia_driver: pending: install " in outcome.text
    assert "GPUs are in use by python3 pid 4242" in outcome.text
    assert versions(host) == {}


def test_ranks_keep_the_driver_as_it_is(host: Host) -> None:
    """A process rank of another user, without a GPU open at this moment."""
    host.show(LOADED)
    with rank_running(host):
        outcome = play(host)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert "The host is busy: ranks running: /home/alice/night" in outcome.text
    assert versions(host) == {}


def test_a_branch_the_repository_lacks(host: Host) -> None:
    host.show(LOADED)
    outcome = play(host, branch="999", allow_unlisted_branch=True)
    assert outcome.rc != 0
    assert "nvidia-driver-pinning-999" in outcome.text
    assert "does not exist there" in outcome.text


def test_check_mode_on_a_bare_host(host: Host) -> None:
    host.show(LOADED)
    outcome = play(host, "--check")
    assert outcome.rc == 0, outcome.text
    assert versions(host) == {}
