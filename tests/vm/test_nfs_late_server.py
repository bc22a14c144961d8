"""Clients of an NFS server that comes up after them: reachable meanwhile, and mounted without anybody's act."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from tests.waiting import wait_until

from .conftest import Site, timed
from .image import RANK_ARCHIVE, RANK_IMAGE
from .machines import BOOT_S, STORAGE
from .site import SHARED

CLIENT = "vm1"
READAHEAD_KB = 16384
KINDS = f"findmnt --noheadings --output FSTYPE --mountpoint {SHARED}"
UP = "systemctl is-system-running | grep -qE 'running|degraded'"


@pytest.fixture(scope="module")
def server(site: Site) -> Iterator[Site]:
    """The roles that the tests use, also where no other file of tests has provisioned the machines."""
    if site.cluster.ssh(STORAGE, "systemctl cat nfs-server").returncode != 0:
        with timed("provisioning of NFS and the engine on bare machines"):
            limits = ("--tags", "base_os,docker_engine,nfs_server,nfs_client", "--limit", f"{STORAGE},{CLIENT}")
            code, cells = site.table("provision", "--yes", *limits)
        assert code == 0, cells
    yield site
    mount_again(site)  # other files of tests use the directory


def mount_again(site: Site) -> None:
    """The server runs, and the client has its mount."""
    site.cluster.on(STORAGE, "systemctl start nfs-server")
    limits = ("--tags", "nfs_server,nfs_client", "--limit", f"{STORAGE},{CLIENT}")
    # An emulated engine may need longer than ten seconds to answer, and then its host counts as busy.
    code, cells = site.table("provision", "--yes", "--disrupt", *limits)
    assert code == 0, cells
    assert cells[CLIENT, "nfs_client"]["status"] in {"ok", "changed"}, cells


@pytest.fixture(autouse=True)
def mounted(server: Site) -> Iterator[None]:
    """The server runs and the client has its mount, before the test and after it."""
    mount_again(server)
    yield
    server.cluster.on(STORAGE, "systemctl start nfs-server; exportfs -ra")


def restart(site: Site) -> None:
    """Reboot the client, and return when it can be used."""
    cluster, boot = site.cluster, "cat /proc/sys/kernel/random/boot_id"
    before = cluster.on(CLIENT, boot)
    cluster.ssh(CLIENT, "systemctl reboot")
    wait_until(
        lambda: (done := cluster.ssh(CLIENT, f"{UP} && {boot}")).returncode == 0 and done.stdout.strip() != before,
        timeout_s=2 * BOOT_S,
        every_s=5,
        what=f"{CLIENT} has booted",
    )


def test_a_client_boots_before_its_server_and_mounts_when_it_is_there(site: Site) -> None:
    cluster = site.cluster
    cluster.on(STORAGE, "systemctl stop nfs-server")
    with timed("reboot of a client without its server"):
        restart(site)
    assert cluster.on(CLIENT, KINDS) == "autofs"
    assert cluster.ssh(CLIENT, f"timeout 100 touch {SHARED}/lost").returncode not in {0, 124}, "a minute at most"
    code, cells = site.table("verify", "--tags", "nfs_client", "--limit", CLIENT)
    assert (code, "no answer or not writable" in str(cells[CLIENT, "nfs_client"])) == (1, True)
    cluster.on(STORAGE, "systemctl start nfs-server")
    with timed("first use after the server's start"):
        wait_until(lambda: cluster.ssh(CLIENT, f"timeout 100 ls {SHARED}").returncode == 0, timeout_s=600, what="a use")
    assert cluster.on(CLIENT, KINDS).split() == ["autofs", "nfs4"]
    found = (
        f"cat /sys/class/bdi/$(findmnt --noheadings --types nfs4 --output MAJ:MIN {SHARED} | tr -d ' ')/read_ahead_kb"
    )
    assert int(cluster.on(CLIENT, found)) == READAHEAD_KB
    assert cluster.ssh(CLIENT, f"test -e {SHARED}/lost").returncode != 0
    code, cells = site.table("verify", "--tags", "nfs_client", "--limit", CLIENT)
    assert (code, cells[CLIENT, "nfs_client"]["status"]) == (0, "ok")
    code, cells = site.table("provision", "--tags", "nfs_client", "--limit", CLIENT)
    assert (code, cells[CLIENT, "nfs_client"]["num_changed"]) == (0, 0)


def test_a_server_that_refuses_often_is_mounted_when_it_accepts(site: Site) -> None:
    """systemd's start limit would end the mount at first use after five failures in ten seconds."""
    cluster = site.cluster
    restart(site)
    cluster.on(STORAGE, "exportfs -ua")
    uses = f"for n in $(seq 12); do timeout 60 ls {SHARED} && exit 1; done; exit 0"
    cluster.on(CLIENT, uses, timeout_s=600)
    assert cluster.on(CLIENT, KINDS) == "autofs"
    cluster.on(STORAGE, "exportfs -ra")
    cluster.on(CLIENT, f"timeout 60 ls {SHARED}")
    assert cluster.on(CLIENT, KINDS).split() == ["autofs", "nfs4"]


def test_a_container_that_binds_a_directory_of_the_mount_is_its_first_use(site: Site) -> None:
    """The mount point itself and a directory below it; each from a mount point that nobody has used before."""
    cluster = site.cluster
    cluster.on(CLIENT, "systemctl start docker")
    if not cluster.on(CLIENT, f"docker image ls --quiet {RANK_IMAGE}"):
        cluster.on(CLIENT, f"docker load --quiet --input {RANK_ARCHIVE}", timeout_s=900)
    cluster.on(CLIENT, f"runuser -u ops -- mkdir -p {SHARED}/below && runuser -u ops -- touch {SHARED}/below/there")
    restart(site)
    for directory, file in ((SHARED, "below/there"), (f"{SHARED}/below", "there")):
        if cluster.on(CLIENT, KINDS) != "autofs":
            cluster.on(CLIENT, f"umount {SHARED}")
        assert cluster.on(CLIENT, KINDS) == "autofs"
        command = ["docker", "run", "--rm", "--network=none", "--volume", f"{directory}:/data:ro", RANK_IMAGE]
        cluster.on(CLIENT, shlex.join([*command, "test", "-e", f"/data/{file}"]), timeout_s=600)
    cluster.on(CLIENT, f"runuser -u ops -- rm -r {SHARED}/below")  # root of a client is nobody there


def test_a_line_of_an_earlier_version_is_changed_without_unmounting(site: Site) -> None:
    """While a process works in the directory; what was there before ddp-play comes back with deprovision."""
    cluster = site.cluster
    wanted = cluster.on(CLIENT, "cat /etc/fstab")
    cluster.on(CLIENT, "sed -i s/nofail,x-systemd.automount,x-systemd.mount-timeout=30s,// /etc/fstab")
    cluster.on(CLIENT, f"(cd {SHARED} && exec sleep 3000) </dev/null >/dev/null 2>&1 & echo $! >/run/in-the-mount.pid")
    mount = f"findmnt --noheadings --types nfs4 --output ID {SHARED}"
    before = cluster.on(CLIENT, mount)
    try:
        code, cells = site.table("provision", "--yes", "--tags", "nfs_client", "--limit", CLIENT)
        assert (code, cells[CLIENT, "nfs_client"]["num_changed"]) == (0, 1)
        assert cluster.on(CLIENT, "cat /etc/fstab") == wanted
        assert cluster.on(CLIENT, mount) == before
    finally:
        cluster.on(CLIENT, "kill $(cat /run/in-the-mount.pid); rm /run/in-the-mount.pid")


def test_deprovision_gives_back_fstab_and_the_directory(site: Site) -> None:
    """Also from a machine that has booted with a mount at first use, which nobody has used."""
    cluster, site_line = site.cluster, "tmpfs /mnt tmpfs noauto,size=1m 0 0"
    limits = ("--tags", "nfs_client", "--limit", CLIENT, "--yes")
    assert site.table("deprovision", *limits)[0] == 0
    cluster.on(CLIENT, f"test ! -e {SHARED} || rmdir {SHARED}; printf '%s' '{site_line}' >>/etc/fstab")
    before = cluster.on(CLIENT, "sha256sum /etc/fstab")
    try:
        assert site.table("provision", *limits)[0] == 0
        restart(site)
        assert cluster.on(CLIENT, KINDS) == "autofs"
        assert site.table("deprovision", *limits)[0] == 0
        assert cluster.on(CLIENT, "sha256sum /etc/fstab") == before
        assert cluster.ssh(CLIENT, f"test -e {SHARED}").returncode != 0
        assert cluster.on(CLIENT, "findmnt --types autofs,nfs4 --noheadings --output TARGET | grep srv || true") == ""
    finally:
        cluster.on(CLIENT, "sed -i '/noauto,size=1m/d' /etc/fstab")


def test_deprovision_unmounts_what_has_left_the_inventory(site: Site) -> None:
    """The record of the host knows it; the inventory has no mount any more."""
    cluster = site.cluster
    limits = ("--tags", "nfs_client", "--limit", CLIENT, "--yes")
    assert site.table("deprovision", *limits)[0] == 0
    before = cluster.on(CLIENT, "sha256sum /etc/fstab; ls /srv")
    assert site.table("provision", *limits)[0] == 0
    assert "nfs4" in cluster.on(CLIENT, KINDS).split()
    code, cells = site.table("deprovision", *limits, "-e", '{"nfs_client_mounts": []}')
    assert (code, cells[CLIENT, "nfs_client"]["status"]) == (0, "changed")
    assert cluster.on(CLIENT, "sha256sum /etc/fstab; ls /srv") == before
    assert cluster.ssh(CLIENT, f"findmnt {SHARED}").returncode != 0
