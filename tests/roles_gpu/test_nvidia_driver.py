"""nvidia_driver on container hosts with a stub repository: pins, holds, refusals, a broken host."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu import mirrors
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.hosts import Host, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NEWEST_580 = "580.178.04"
LOADED = Hardware(loaded=NEWEST_580)
NVSWITCH = Hardware(loaded=NEWEST_580, num_nvswitches=4)
MIRROR: dict[str, Any] = {
    "ddp_mirror_url": f"file://{mirrors.GOOD}",
    "__nvidia_driver_sysfs": "/opt/hardware/sys",
    "__nvidia_driver_procfs": "/opt/hardware/proc",
}


def play(host: Host, *flags: str, tasks_from: str = "main", **changes: Any) -> Outcome:
    variables = MIRROR | {f"nvidia_driver_{key}": value for key, value in changes.items()}
    return host.play("nvidia_driver", variables, *flags, tasks_from=tasks_from)


def versions(host: Host) -> dict[str, str]:
    form = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
    out = host.sh(f"dpkg-query -W -f '{form}' '*nvidia*' libcuda1", check=False)
    rows = (line.split("\t") for line in out.splitlines())
    return {name: version for name, version, status in rows if status == "installed"}


@contextmanager
def rank_running(host: Host) -> Iterator[None]:
    """A guard's command line, as the roles know it."""
    host.sh("echo 'import time; time.sleep(900)' > /srv/wait.py")
    host.sh("systemd-run -q --unit=rank --uid=nobody python3 -I -S /srv/wait.py guard /home/alice/night")
    try:
        yield
    finally:
        host.sh("systemctl stop rank")


@pytest.fixture(scope="module")
def converged(host: Host) -> Outcome:
    host.show(LOADED)
    outcome = play(host)
    assert outcome.rc == 0, outcome.text
    return outcome


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


def test_second_run_changes_nothing(host: Host, converged: Outcome) -> None:
    assert converged.changed > 0
    second = play(host)
    assert (second.rc, second.changed) == (0, 0), second.text
    print(f"first {converged.wall_s:.1f} s, second {second.wall_s:.1f} s, {second.num_tasks} tasks")  # noqa: T201


@contextmanager
def unreachable(host: Host) -> Iterator[None]:
    """The repository cannot be reached."""
    host.sh(f"mv {mirrors.STUB} /srv/away")
    try:
        yield
    finally:
        host.sh(f"mv /srv/away {mirrors.STUB}")


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
    assert (
        host.sh(
            "ls /etc/apt/sources.list.d /etc/apt/keyrings /etc/modprobe.d /etc/apt/preferences.d | grep ddp-nvidia",
            check=False,
        )
        == ""
    )
    assert play(host, tasks_from="remove").changed == 0
