"""nvidia_driver on a driver that it has not installed: used as it is, or refused, never replaced or removed unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.roles_gpu import mirrors
from tests.roles_gpu.driver_plays import LOADED, NEWEST_580, play, versions
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from tests.roles_gpu.hosts import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

OLD = "550.54.14"
SMI, UNINSTALLER = "/usr/bin/nvidia-smi", "/usr/bin/nvidia-uninstall"
LISTING = "find /etc /usr /var/lib/dpkg /lib/systemd -type f -newer /srv/began ! -name '*.pyc' | sort"


@pytest.fixture(autouse=True)
def _installed_by_hand(host: Host) -> None:
    """The files of the driver without its packages, as NVIDIA's installer leaves them."""
    host.show(LOADED)
    host.sh(
        f"cd {mirrors.STUB} && for name in nvidia-driver-cuda libcuda1; do"
        f" dpkg-deb -x $(find . -name ${{name}}_{NEWEST_580}-1_*.deb) /; done;"
        f" printf '#!/bin/sh\\n' > {UNINSTALLER}; chmod 755 {UNINSTALLER} {SMI};"
        " rm -f /etc/ddp-stub/*; sleep 0.01; touch /srv/began"
    )


def test_a_removal_leaves_it_and_what_belongs_to_it(host: Host) -> None:
    """Packages next to it, such as that of the fabric manager, are the site's too."""
    fabric = f"$(find . -name nvidia-fabricmanager_{NEWEST_580}-1_*.deb)"
    host.sh(f"cd {mirrors.STUB} && dpkg -i --force-depends {fabric} && systemctl enable --now nvidia-fabricmanager")
    try:
        outcome = play(host, tasks_from="remove")
        assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
        assert "nvidia-fabricmanager" in versions(host)
        assert host.sh("systemctl is-active nvidia-fabricmanager").strip() == "active"
        assert host.sh(f"ls {SMI}").strip() == SMI
    finally:
        host.sh("systemctl disable --now nvidia-fabricmanager; dpkg -P --force-depends nvidia-fabricmanager")


@pytest.mark.parametrize("flags", [(), ("--check",)], ids=["provision", "check"])
def test_one_that_works_is_used_as_it_is(host: Host, flags: tuple[str, ...]) -> None:
    outcome = play(host, *flags)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert f"skipped: nvidia_driver: driver {NEWEST_580} ({SMI}) came from no package" in outcome.text
    assert versions(host) == {}
    assert host.sh(LISTING) == ""


def test_an_old_one_is_used_where_no_torch_is_to_be_judged(host: Host) -> None:
    host.show(Hardware(loaded=OLD))
    outcome = play(host, torch_version="", expected_gpus=2)
    assert f"nvidia-smi is of version {NEWEST_580}, the module is {OLD}" in outcome.text, (
        "the files are of the other one"
    )
    host.sh(f"sed -i s/{NEWEST_580}/{OLD}/ {SMI}")
    outcome = play(host, torch_version="")
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert f"skipped: nvidia_driver: driver {OLD} ({SMI}) came from no package" in outcome.text


def test_verify_judges_it(host: Host) -> None:
    outcome = play(host, tasks_from="verify", expected_gpus=2)
    assert outcome.rc == 0, outcome.text
    assert "is used as it is" in outcome.text
    host.sh("mkdir -p /etc/ddp-stub; echo 3 > /etc/ddp-stub/cuinit; echo 1 > /etc/ddp-stub/gpus")
    outcome = play(host, tasks_from="verify", expected_gpus=2)
    assert outcome.rc != 0
    assert (
        "came from no package that this role knows, is not as wanted: GPU counts differ: nvidia-smi 1, inventory 2"
        in outcome.text
    )
    assert "no CUDA context: cuInit 3" in outcome.text


@pytest.mark.parametrize(
    ("loaded", "reason"),
    [(OLD, f"{OLD} is too old for torch 2.13.0, which needs 580"), ("", "its module is not loaded")],
    ids=["old", "not-loaded"],
)
def test_one_that_ranks_cannot_use_is_refused_and_stays(host: Host, loaded: str, reason: str) -> None:
    host.show(Hardware(loaded=loaded))
    outcome = play(host)
    assert (outcome.rc != 0, outcome.changed) == (True, 0), outcome.text
    assert f"came from no package that this role knows, and {reason}" in outcome.text
    assert f"Remove it with {UNINSTALLER}" in outcome.text
    assert host.sh(LISTING) == ""


def test_packages_replace_it_only_if_asked_and_without_its_uninstaller(host: Host) -> None:
    outcome = play(host, replace=True)
    assert (outcome.rc != 0, outcome.changed) == (True, 0), outcome.text
    assert f"{UNINSTALLER} is still there" in outcome.text
    host.sh(f"rm {UNINSTALLER}")
    outcome = play(host, replace=True)
    assert outcome.rc == 0, outcome.text
    assert versions(host)["nvidia-driver-cuda"] == f"{NEWEST_580}-1"
    second = play(host)
    assert (second.rc, second.changed) == (0, 0), second.text
    host.show(Hardware(gpus=()))  # the removal of packages does not need the GPUs, which may be gone by now
    removed = play(host, tasks_from="remove", enabled=False)
    assert removed.rc == 0, removed.text
    assert versions(host) == {}


def test_packages_of_the_site_in_the_wanted_version_stay_as_they_are(host: Host) -> None:
    """Holds, daemons and repositories too. A host whose record is gone has packages that nobody knows as the role's."""
    host.sh(f"rm {UNINSTALLER}")
    assert play(host, replace=True).rc == 0
    host.sh("rm -rf /etc/ddp-play; apt-mark unhold nvidia-modprobe; systemctl disable --now nvidia-persistenced")
    there, held = versions(host), set(host.sh("apt-mark showhold").split())
    assert held == set(there) - {"nvidia-modprobe"}
    try:
        used = play(host)
        assert (used.rc, used.changed) == (0, 0), used.text
        assert "is used as it is" in used.text
        assert host.sh("systemctl is-active nvidia-persistenced", check=False).strip() == "inactive"
        removed = play(host, tasks_from="remove")
        assert removed.rc == 0, removed.text
        assert (versions(host), set(host.sh("apt-mark showhold").split())) == (there, held)
    finally:
        host.sh(
            "apt-get purge -y -qq --allow-change-held-packages $(dpkg-query -W -f '${Package} ' '*nvidia*' libcuda1)"
        )


def test_holds_of_the_site_outlive_a_replacement(host: Host) -> None:
    """Of packages that stay; the role releases them while it changes versions."""
    older, pin = "580.105.08", "/etc/apt/preferences.d/site"
    host.sh(f"rm -f {UNINSTALLER} {SMI} /usr/lib/x86_64-linux-gnu/libcuda.so.1")
    host.sh(f"printf 'Package: *nvidia* libcuda*\\nPin: version {older}*\\nPin-Priority: 1001\\n' > {pin}")
    host.sh("echo 'deb [trusted=yes] file:/srv/stub ./' > /etc/apt/sources.list.d/before.list; apt-get update -qq")
    host.sh(f"apt-get install -y -qq nvidia-driver-cuda libcuda1 nvidia-kernel-open-dkms; rm {pin}")
    host.sh("rm /etc/apt/sources.list.d/before.list; apt-get update -qq; apt-mark hold libcuda1")
    assert versions(host)["libcuda1"] == f"{older}-1"
    host.show(Hardware(loaded=older))
    try:
        for hold in (False, True):
            outcome = play(host, replace=True, version=NEWEST_580, hold=hold, verify=False)
            assert outcome.rc == 0, outcome.text
            assert versions(host)["libcuda1"] == f"{NEWEST_580}-1"
            held = host.sh("apt-mark showhold").split()
            assert ("libcuda1" in held, "nvidia-modprobe" in held) == (True, hold)
        removed = play(host, tasks_from="remove")
        assert removed.rc == 0, removed.text
        assert host.sh("apt-mark showhold").split() == ["libcuda1"]
    finally:
        host.sh(
            "apt-get purge -y -qq --allow-change-held-packages $(dpkg-query -W -f '${Package} ' '*nvidia*' libcuda1)"
        )


def test_packages_of_the_site_stay_in_their_version_and_after_a_removal(host: Host) -> None:
    """A driver of another version than the wanted one, from the vendor's packages, which somebody else installed."""
    older = "580.105.08"
    host.sh(f"rm -f {UNINSTALLER} {SMI} /usr/lib/x86_64-linux-gnu/libcuda.so.1; mkdir -p /srv/debs")
    names = "libcuda1 libnvidia-ml1 nvidia-modprobe nvidia-driver-cuda"
    host.sh(f"cd {mirrors.STUB} && for n in {names}; do cp $(find . -name ${{n}}_{older}-1_*.deb) /srv/debs; done")
    host.sh("dpkg -i --force-depends /srv/debs/*.deb")
    host.show(Hardware(loaded=older))
    there = versions(host)
    try:
        outcome = play(host)
        assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
        assert (
            "is of packages that this role has not installed (libcuda1, libnvidia-ml1, nvidia-driver-cuda)"
            in outcome.text
        )
        removed = play(host, tasks_from="remove")
        assert (removed.rc, removed.changed) == (0, 0), removed.text
        assert versions(host) == there
    finally:
        host.sh(f"dpkg -P --force-depends {names}")
