"""From bare machines with their own kernels to a finished run, by the product's own commands, in order."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from .conftest import Site, timed
from .image import INSTALLED
from .machines import RANKS
from .site import ROOT, SHARED, write_job

PLAYBOOKS = ROOT / "playbooks"
# After a reboot the directory would be mounted again by the first who looks.
UNMOUNT = f"systemctl --quiet stop srv-ddp.automount; umount -q {SHARED}; ! findmnt {SHARED}"
OURS = "find /etc -name '*ddp-play*'"


def failures(cells: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells that are neither done nor skipped for a reason."""
    return [cell for cell in cells.values() if cell["status"] not in {"ok", "changed", "skipped"}]


def test_provision_from_bare(site: Site) -> None:
    with timed("first provision"):
        code, cells = site.table("provision", "--no-check")
    assert (code, failures(cells)) == (0, [])
    assert cells["nfs1", "nfs_server"]["status"] in {"changed", "ok"}
    assert site.cluster.on("vm2", f"findmnt -t nfs4 -no SOURCE,FSTYPE {SHARED}").split() == [
        f"10.77.0.13:{SHARED}",
        "nfs4",
    ]
    options = site.cluster.on("vm2", f"findmnt -t nfs4 -no OPTIONS {SHARED}").split(",")
    assert {"vers=4.2", "hard", "nconnect=8", "noatime"} <= set(options)


def test_second_provision_changes_nothing(site: Site) -> None:
    with timed("second provision"):
        code, cells = site.table("provision", "--no-check")
    assert (code, failures(cells)) == (0, [])
    assert {key: cell for key, cell in cells.items() if cell["num_changed"]} == {}


def test_verify(site: Site) -> None:
    with timed("verify"):
        code, cells = site.table("verify")
    assert (code, failures(cells)) == (0, [])


def test_files_go_both_ways(site: Site) -> None:
    """The server uses the directory itself, the client mounts it; root of the client is nobody there."""
    cluster = site.cluster
    cluster.on("vm2", f"runuser -u ops -- sh -c 'echo from vm2 > {SHARED}/note'")
    assert cluster.on("nfs1", f"cat {SHARED}/note; stat -c %U {SHARED}/note").split("\n") == ["from vm2", "ops"]
    assert cluster.ssh("vm2", f"touch {SHARED}/root-was-here").returncode != 0
    cluster.on("nfs1", f"rm {SHARED}/note")
    assert cluster.ssh("vm2", f"test -e {SHARED}/note").returncode != 0


def test_the_clock_is_kept(site: Site) -> None:
    """vm2 started 90 minutes slow: chrony has set it, verify sees that, and sees when nobody keeps the clock."""
    now = [int(site.cluster.on(name, "date +%s")) for name in RANKS]
    assert abs(now[0] - now[1]) < 30  # two logins apart
    assert "10.0.2.2" in site.cluster.on("vm2", "chronyc -n sources")
    site.cluster.on("vm2", "systemctl stop chrony.service")
    try:
        code, cells = site.table("verify", "--tags", "base_os", "--limit", "vm2")
        assert code == 1
        assert "the clock is not synchronized" in json.dumps(cells["vm2", "base_os"])
    finally:
        site.cluster.on("vm2", "systemctl start chrony.service && chronyc waitsync 60 0.5 0 2")


def test_rdma_is_found(site: Site) -> None:
    """Soft-RoCE counts as RDMA: the role brings the user space, judges the port, and discover reports the device."""
    code, cells = site.table("verify", "--tags", "rdma")
    assert (code, failures(cells)) == (0, [])
    for name in RANKS:
        assert cells[name, "rdma"]["status"] == "ok"
        assert "PORT_ACTIVE" in site.cluster.on(name, "ibv_devinfo -d rxe0")
    site.cluster.on("vm2", "rdma link delete rxe0")
    try:
        code, cells = site.table("verify", "--tags", "rdma", "--limit", "vm2", "-e", "rdma_expected_hcas=1")
        assert code == 1
        assert "rdma_expected_hcas is 1, but no RDMA hardware" in json.dumps(cells["vm2", "rdma"])
    finally:
        site.cluster.on("vm2", "systemctl restart soft-roce.service")


@pytest.mark.parametrize(
    ("role", "host", "breaks", "mends", "says"),
    [
        ("nfs_client", "vm2", UNMOUNT, f"mount {SHARED}", "not mounted"),
        ("nfs_server", "nfs1", "systemctl stop nfs-server", "systemctl start nfs-server", "is inactive"),
        ("base_os", "vm2", "sysctl -w net.core.somaxconn=128", "sysctl -w net.core.somaxconn=4096", "somaxconn"),
    ],
)
def test_verify_sees_a_broken_machine(site: Site, role: str, host: str, breaks: str, mends: str, says: str) -> None:
    site.cluster.on(host, breaks)
    try:
        code, cells = site.table("verify", "--tags", role, "--limit", host)
        assert code == 1
        assert says in json.dumps(cells[host, role])
    finally:
        site.cluster.on(host, mends)


def test_an_export_that_is_refused(site: Site) -> None:
    """A directory that the server does not export to this client: a failure that names it, and no mount left."""
    mounts = json.dumps(
        {"nfs_client_mounts": [{"server": "10.77.0.13", "path": "/srv/none", "mountpoint": "/mnt/none"}]}
    )
    code, cells = site.table("provision", "--tags", "nfs_client", "--limit", "vm2", "-e", mounts)
    cell = cells["vm2", "nfs_client"]
    assert (code, cell["status"]) == (1, "failed")
    assert "/mnt/none" in json.dumps(cell)
    assert site.cluster.ssh("vm2", "findmnt /mnt/none; grep -q /mnt/none /etc/fstab").returncode != 0


def test_reboot_and_come_back_whole(site: Site) -> None:
    before = {name: site.cluster.on(name, "cat /proc/sys/kernel/random/boot_id") for name in RANKS}
    with timed("reboot of both, one after the other"):
        done = site.ansible_playbook(str(PLAYBOOKS / "reboot.yml"), "--limit", "ranks")  # they are clients of nfs1
    assert done.returncode == 0, done.stdout[-3000:]
    for name, boot in before.items():
        assert site.cluster.on(name, "cat /proc/sys/kernel/random/boot_id") != boot
    site.cluster.on("vm2", "chronyc waitsync 60 0.5 0 2")
    code, cells = site.table("verify")
    assert (code, failures(cells)) == (0, [])
    assert site.cluster.on("vm2", f"findmnt -t nfs4 -no FSTYPE {SHARED}") == "nfs4"


def test_the_main_job_meets_in_a_file_on_the_mount(site: Site) -> None:
    """One rank container on each machine, file:// and checkpoints on the NFS mount, equal parameters, an accuracy."""
    command = ["python3", "-m", "trainer", "train", "--epochs", "1", "--batch-size", "16", "--checkpoint-every", "30"]
    command += ["--init-method", "{init_method}", "--checkpoint-dir", f"{SHARED}/checkpoints/digits"]
    job = write_job(
        site.cluster,
        "digits",
        source=str(ROOT),
        source_include=["trainer"],
        command=command,
        init_method="file",
        timeout="15m",
        host_timeout="3m",
    )
    name = f"digits-{secrets.token_hex(3)}"  # a kept cluster has seen others
    site.cluster.on("nfs1", f"rm -rf {SHARED}/checkpoints")
    with timed("main job, command to end"):
        done = site.play("run", str(job), "--name", name, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    bundle = site.home / "runs" / name
    plan = json.loads((bundle / "plan.json").read_text())
    assert plan["init_url"].startswith(f"file://{SHARED}/.ddp-play/")
    assert [host["name"] for host in plan["hosts"]] == ["vm1", "vm2"]
    results = [json.loads((bundle / "results" / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert {row["world_size"] for row in results} == {2}
    assert len({row["parameters_sha256"] for row in results}) == 1
    assert results[0]["accuracy"] > 0.9
    assert "manifest.json" in site.cluster.on("nfs1", f"find {SHARED}/checkpoints/digits -name manifest.json")
    assert site.cluster.on("nfs1", f"find {SHARED}/.ddp-play -mindepth 1") == ""
    for name in RANKS:
        assert site.cluster.on(name, "docker ps -aq --filter label=ddp-play.run") == ""


def test_a_machine_is_given_back_and_taken_again(site: Site) -> None:
    """Deprovision takes mount, image, engine and settings off; provision of that machine alone brings all back."""
    with timed("deprovision of one"):
        code, cells = site.table("deprovision", "--limit", "vm2", "--yes")
    assert (code, failures(cells)) == (0, [])
    assert cells["vm2", "nfs_client"]["status"] == cells["vm2", "image_distribution"]["status"] == "changed"
    left = site.cluster.on("vm2", f"findmnt {SHARED}; grep {SHARED} /etc/fstab; command -v dockerd; {OURS}; true")
    assert left == ("/usr/sbin/dockerd" if INSTALLED else ""), "an engine that was there before the roles stays"
    with timed("provision of that one"):
        code, cells = site.table("provision", "--no-check", "--limit", "vm2")
    assert (code, failures(cells)) == (0, [])
    assert {host for host, _ in cells} == {"vm2"}
    assert site.cluster.on("vm2", f"findmnt -t nfs4 -no FSTYPE {SHARED}") == "nfs4"
    assert site.cluster.on("vm2", "docker image ls --quiet") != ""
