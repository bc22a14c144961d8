"""nvidia_driver where it is installed: a second run, pins, holds, a broken host, other versions, removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.roles_gpu.driver_plays import LOADED, NEWEST_580, play, rank_running, unreachable, versions
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from tests.roles_gpu.hosts import Host, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

THEIR_FILE, THEIR_REPOSITORY = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list", "# of the site"
NVSWITCH = Hardware(loaded=NEWEST_580, num_nvswitches=4)


@pytest.fixture(scope="module")
def converged(host: Host) -> Outcome:
    host.show(LOADED)
    host.sh(f"echo '{THEIR_REPOSITORY}' > {THEIR_FILE}")
    outcome = play(host)
    assert outcome.rc == 0, outcome.text
    return outcome


def test_second_run_changes_nothing(host: Host, converged: Outcome) -> None:
    assert converged.changed > 0
    second = play(host)
    assert (second.rc, second.changed) == (0, 0), second.text
    print(f"first {converged.wall_s:.1f} s, second {second.wall_s:.1f} s, {second.num_tasks} tasks")  # noqa: T201


@pytest.mark.usefixtures("converged")
def test_a_converged_host_needs_no_repository(host: Host) -> None:
    with unreachable(host):
        outcome = play(host)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text


@pytest.mark.usefixtures("converged")
def test_check_mode_on_a_converged_host(host: Host) -> None:
    outcome = play(host, "--check")
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text


@pytest.mark.usefixtures("converged")
def test_pins_and_holds(host: Host) -> None:
    """The newest of the branch and not 595, although every dependency would allow 595; all of it held."""
    installed = versions(host)
    assert installed["nvidia-driver-cuda"] == f"{NEWEST_580}-1"
    assert set(installed.values()) == {f"{NEWEST_580}-1"}
    assert set(host.sh("apt-mark showhold").split()) == set(installed)
    simulated = host.sh("apt-get -s dist-upgrade")
    assert "Inst" not in simulated
    assert "Inst" not in host.sh("apt-get -s --ignore-hold install nvidia-driver-cuda libcuda1")


@pytest.mark.usefixtures("converged")
@pytest.mark.parametrize(
    ("breakage", "repair", "problem"),
    [
        ("apt-mark unhold nvidia-modprobe", "apt-mark hold nvidia-modprobe", "not on hold: nvidia-modprobe"),
        (
            "systemctl stop nvidia-persistenced",
            "systemctl start nvidia-persistenced",
            "nvidia-persistenced is inactive",
        ),
        (
            "mkdir -p /etc/ddp-stub; echo 1 > /etc/ddp-stub/gpus",
            "rm -r /etc/ddp-stub",
            "GPU counts differ: nvidia-smi 1",
        ),
        (
            "mkdir -p /etc/ddp-stub; echo 802 > /etc/ddp-stub/cuinit",
            "rm -r /etc/ddp-stub",
            "cuInit 802 (NVSwitch without",
        ),
        (
            "mv /var/lib/dkms/nvidia /tmp/dkms",
            "mv /tmp/dkms /var/lib/dkms/nvidia",
            "dkms has no nvidia module installed",
        ),
        ("mv /usr/bin/nvidia-smi /tmp", "mv /tmp/nvidia-smi /usr/bin", "nvidia-smi failed"),
    ],
)
def test_verify_fails_on_a_broken_host(host: Host, breakage: str, repair: str, problem: str) -> None:
    host.show(LOADED)
    host.sh(breakage)
    broken = play(host, tasks_from="verify")
    host.sh(repair)
    assert broken.rc != 0
    assert problem in broken.text
    assert play(host, tasks_from="verify").rc == 0


@pytest.mark.usefixtures("converged")
def test_an_older_module_in_the_kernel_asks_for_a_reboot(host: Host) -> None:
    host.show(Hardware(loaded="570.86.15"))
    outcome = play(host)
    assert (outcome.rc, outcome.changed) == (0, 0)
    assert "pending: nvidia_driver: reboot needed: module 570.86.15 is loaded, 580.178.04 is on disk" in outcome.text
    assert "This is a container, which cannot reboot." in outcome.text
    alone = play(host, tasks_from="verify")
    assert alone.rc != 0
    assert "reboot needed: module 570.86.15" in alone.text


@pytest.mark.usefixtures("converged")
def test_no_reboot_unless_requested(host: Host) -> None:
    """The host says that it is no container, so that only the role keeps it from rebooting."""
    host.show(Hardware(loaded="570.86.15"))
    stub = "/usr/local/sbin/systemd-detect-virt"
    host.sh(f"printf '#!/bin/sh\\nexit 1\\n' > {stub}; chmod +x {stub}")
    started = "stat -c %Y /proc/1"
    before = host.sh(started)
    try:
        default = play(host)
        assert (default.rc, default.changed) == (0, 0), default.text
        assert "ddp-play reboot -i INVENTORY --limit" in default.text
        with rank_running(host):
            requested = play(host, allow_reboot=True)
        assert (requested.rc, requested.changed) == (0, 0), requested.text
        assert "skipped: nvidia_driver: pending: reboot (module 570.86.15 is loaded" in requested.text
    finally:
        host.sh(f"rm {stub}")
    assert host.sh(started) == before


@pytest.mark.usefixtures("converged")
def test_fabric_manager_equals_the_driver(host: Host) -> None:
    host.show(NVSWITCH)
    first = play(host)
    assert first.rc == 0, first.text
    assert versions(host)["nvidia-fabricmanager"] == f"{NEWEST_580}-1"
    assert play(host).changed == 0

    change = "--allow-downgrades --allow-change-held-packages"
    host.sh(f"apt-get install -qy {change} nvidia-fabricmanager=580.105.08-1")
    broken = play(host, tasks_from="verify")
    assert broken.rc != 0
    assert "nvidia-fabricmanager is 580.105.08-1, the driver is 580.178.04" in broken.text
    healed = play(host)
    assert healed.rc == 0, healed.text
    assert versions(host)["nvidia-fabricmanager"] == f"{NEWEST_580}-1"

    host.show(LOADED)
    gone = play(host)
    assert gone.rc == 0, gone.text
    assert "nvidia-fabricmanager" not in versions(host)


@pytest.mark.usefixtures("converged")
@pytest.mark.parametrize("wanted", [{"branch": "595"}, {"version": "580.105.08"}, {"version": NEWEST_580}])
def test_moving_to_another_version_moves_all_of_it(host: Host, wanted: dict[str, str]) -> None:
    version = wanted.get("version", "595.91.07")
    host.show(Hardware(loaded=version))
    outcome = play(host, **wanted)
    assert outcome.rc == 0, outcome.text
    assert set(versions(host).values()) == {f"{version}-1"}, versions(host)
    assert play(host, **wanted).changed == 0


@pytest.mark.usefixtures("converged")
def test_remove_leaves_no_hold_repository_or_package(host: Host) -> None:
    host.show(LOADED)
    outcome = play(host, tasks_from="remove")
    assert outcome.rc == 0, outcome.text
    assert versions(host) == {}
    assert host.sh("apt-mark showhold") == ""
    assert host.sh(f"cat {THEIR_FILE}").strip() == THEIR_REPOSITORY
    assert (
        host.sh(
            "ls /etc/apt/sources.list.d /etc/apt/keyrings /etc/modprobe.d /etc/apt/preferences.d | grep ddp-nvidia",
            check=False,
        )
        == ""
    )
    assert play(host, tasks_from="remove").changed == 0
