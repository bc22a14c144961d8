"""From bare hosts to a finished run in one inventory, and a second provisioning that changes nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, bare_lab
from .rank_jobs import SLIM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

HOSTS = ("h1", "h2", "h3")
# Generous: CI shares its cores. The figure that counts is in docs/performance.md.
SECOND_S = 240
# Of all roles on a host that is as it should be; each task more costs every second run of every site.
MAX_CONVERGED_TASKS = 16
# Files with our name, the engine's configuration, and packages on hold.
OURS = "sudo find /etc -name '*ddp-play*' -o -path /etc/docker/daemon.json | sort; apt-mark showhold"
WHO = "import os, socket; print(os.environ['RANK'], os.environ['WORLD_SIZE'], socket.gethostname())"


@pytest.fixture(scope="module")
def bare(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine."""
    with bare_lab(lab_home, "bare", 3) as lab:
        lab.build_slim_image()
        yield lab


@pytest.fixture(scope="module")
def site(bare: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a site would write into its group_vars, as a second inventory beside the lab's."""
    path = tmp_path_factory.mktemp("site") / "site.json"
    variables = {"docker_engine_source": "distribution", "docker_engine_users": ["ops"]}
    path.write_text(json.dumps({"all": {"vars": variables, "children": {"monitoring": {"children": {"ranks": None}}}}}))
    return path


def provision(lab: Lab, site: Path, *words: str) -> tuple[CompletedProcess[str], dict[str, Any]]:
    """`ddp-play provision --json` with its report."""
    inventories = ("-i", str(lab.inventory), "-i", str(site))
    done = lab.play("provision", *inventories, "--json", *words, timeout_s=600)
    return done, json.loads(done.stdout)


@pytest.fixture(scope="module")
def first(bare: Lab, site: Path) -> dict[str, Any]:
    """The report of the first provisioning."""
    assert bare.on("h1", "command -v docker || echo none") == "none"
    done, report = provision(bare, site)
    assert done.returncode == 0, done.stderr + done.stdout
    return report


def cells(report: dict[str, Any], role: str) -> dict[str, dict[str, Any]]:
    return {cell["host"]: cell for cell in report["cells"] if cell["role"] == role}


def test_bare_hosts_become_nodes(first: dict[str, Any]) -> None:
    for role in ("base_os", "docker_engine", "monitoring"):
        assert {host: cell["status"] for host, cell in cells(first, role).items()} == dict.fromkeys(HOSTS, "changed")
    for role in (
        "rdma",
        "nvidia_driver",
        "nccl",
        "nvidia_container_toolkit",
        "nfs_client",
        "image_distribution",
        "scratch",
    ):
        assert {cell["status"] for cell in cells(first, role).values()} == {"skipped"}, role
        assert all(cell["reason"] for cell in cells(first, role).values()), role


@pytest.fixture(scope="module")
def loaded(bare: Lab, first: dict[str, Any]) -> None:
    """The hosts have the image, after their first provisioning."""
    done = bare.play("image", "load", "-i", str(bare.inventory), "--image", SLIM, timeout_s=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("loaded")
def test_nodes_run_a_job(bare: Lab, site: Path, tmp_path: Path) -> None:
    """As a user would: the image, then a playbook with the job."""
    job = {"ddp_job_image": SLIM, "ddp_job_image_pull": "never", "ddp_job_command": ["python3", "-c", WHO]}
    play = {"hosts": "ranks", "gather_facts": False, "roles": [{"role": "ddp.play.ddp_job", "vars": job}]}
    path = tmp_path / "train.json"
    path.write_text(json.dumps([play]))
    name = f"bare-{os.getpid()}"
    done = bare.play("run", str(path), "-i", str(bare.inventory), "-i", str(site), "--name", name)
    assert done.returncode == 0, done.stderr
    logs = [(bare.home / "runs" / name / "logs" / f"rank-{rank}.log").read_text().strip() for rank in range(3)]
    assert logs == ["0 3 h1", "1 3 h2", "2 3 h3"]


@pytest.mark.usefixtures("first")
def test_a_second_time_changes_nothing(bare: Lab, site: Path) -> None:
    started = time.monotonic()
    done, report = provision(bare, site)
    wall_s = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert [cell for cell in report["cells"] if cell["num_changed"]] == []
    assert {cell["status"] for cell in report["cells"]} == {"ok", "skipped"}
    assert wall_s < SECOND_S
    per_host = [sum(row["num_tasks"] for row in report["cells"] if row["host"] == host) for host in HOSTS]
    assert max(per_host) <= MAX_CONVERGED_TASKS


@pytest.mark.usefixtures("first")
def test_verify_passes_and_names_what_was_broken(bare: Lab, site: Path) -> None:
    words = ("verify", "-i", str(bare.inventory), "-i", str(site), "--json", "--tags", "docker_engine")
    assert bare.play(*words).returncode == 0
    bare.on("h2", "sudo sed --in-place s/local/json-file/ /etc/docker/daemon.json")
    done = bare.play(*words)
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert {host: cell["status"] for host, cell in cells(report, "docker_engine").items()} == {
        "h1": "ok", "h2": "failed", "h3": "ok",
    }  # fmt: skip
    assert "files that differ: /etc/docker/daemon.json" in cells(report, "docker_engine")["h2"]["message"]
    mended, after = provision(bare, site, "--tags", "docker_engine")
    assert mended.returncode == 0, mended.stderr
    assert {host: cell["status"] for host, cell in cells(after, "docker_engine").items()} == {
        "h1": "ok", "h2": "changed", "h3": "ok",
    }  # fmt: skip


@pytest.mark.usefixtures("first")
@pytest.mark.long
def test_a_masked_engine_is_named_with_the_command_that_helps(bare: Lab, site: Path) -> None:
    """Nothing can start it, and the role does not undo what somebody did on purpose."""
    bare.on("h2", "sudo systemctl mask --now docker.service docker.socket")
    unmask = "systemctl unmask docker.service docker.socket"
    done = bare.play("verify", "-i", str(bare.inventory), "-i", str(site), "--json", "--tags", "docker_engine")
    message = cells(json.loads(done.stdout), "docker_engine")["h2"]["message"]
    assert (done.returncode, unmask in message) == (1, True), message
    for flags in (("--check",), ()):
        refused, report = provision(bare, site, "--tags", "docker_engine", *flags)
        cell = cells(report, "docker_engine")["h2"]
        assert (refused.returncode != 0, cell["status"], unmask in cell["message"]) == (True, "failed", True), cell
    bare.on("h2", f"sudo {unmask}")
    mended, report = provision(bare, site, "--tags", "docker_engine")
    assert mended.returncode == 0, mended.stderr
    assert cells(report, "docker_engine")["h2"]["status"] == "changed"
    assert bare.on("h2", "docker info --format '{{.ServerVersion}}'")


@pytest.mark.usefixtures("first")
def test_one_verify_names_all_that_is_wrong_on_a_host(bare: Lab, site: Path) -> None:
    """A file of base_os and a stopped engine: both roles fail, no role is left out, and the other hosts are ok."""
    inventories = ("-i", str(bare.inventory), "-i", str(site))
    sysctl, limits = "/etc/sysctl.d/90-ddp-play.conf", "/etc/security/limits.d/60-ddp-play.conf"
    bare.on("h2", f"sudo sh -c 'echo >> {sysctl}; rm {limits}'; sudo systemctl stop docker.socket docker.service")
    done = bare.play("verify", *inventories, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    failed = {(cell["host"], cell["role"]) for cell in report["cells"] if cell["status"] == "failed"}
    assert failed == {("h2", "base_os"), ("h2", "docker_engine")}
    assert {cell["status"] for cell in report["cells"]} == {"ok", "skipped", "failed"}
    assert f"files that are missing: {limits}; files that differ: {sysctl}" in cells(report, "base_os")["h2"]["message"]
    assert "docker" in cells(report, "docker_engine")["h2"]["message"]
    assert "not as provisioned: h2 (base_os failed, docker_engine failed)" in report["message"]
    mended, _ = provision(bare, site, "--limit", "h2")
    assert mended.returncode == 0, mended.stderr
    again = bare.play("verify", *inventories)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "3 hosts, 3 roles as provisioned" in again.stdout


@pytest.mark.usefixtures("first")
def test_verify_names_another_time_zone(bare: Lab, site: Path) -> None:
    """As on a machine: in a container the role leaves the zone alone."""
    given = {"__base_os_container": False, "base_os_time_sync": "none", "base_os_timezone": "Europe/Madrid"}
    words = ("-i", str(bare.inventory), "-i", str(site), "--json", "--tags", "base_os", "--limit", "h2")
    done = bare.play("verify", *words, "-e", json.dumps(given))
    message = cells(json.loads(done.stdout), "base_os")["h2"]["message"]
    assert (done.returncode, "time zone that differs: Etc/UTC" in message) == (1, True), message


@pytest.mark.usefixtures("loaded")
def test_limits_that_a_host_cannot_give_are_lowered(bare: Lab) -> None:
    """An engine in a container may not raise limits; with the default of 131072 no container would start there."""
    hard = int(bare.on("h1", "awk '/Max open files/ {print $5}' /proc/1/limits"))
    raises = int(bare.on("h1", "awk '/CapBnd/ {print $2}' /proc/1/status"), 16) >> 24 & 1
    given = bare.on("h1", f"docker run --rm --net host {SLIM} sh -c 'ulimit -Hn'")
    assert int(given) == (131072 if raises else min(hard, 131072))


@pytest.mark.usefixtures("loaded")
@pytest.mark.long
def test_a_host_is_taken_out_and_comes_back(bare: Lab, site: Path) -> None:
    """Deprovision undoes what provision did and says what it leaves; one host alone is provisioned again."""
    images = json.dumps({"image_distribution_images": [{"name": SLIM}]})
    inventories = ("-i", str(bare.inventory), "-i", str(site), "-e", images)
    before = bare.on("h2", OURS)
    done = bare.play("deprovision", *inventories, "--limit", "h3", "--yes", "--json", timeout_s=300)
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr + done.stdout
    assert {cell["host"] for cell in report["cells"]} == {"h3"}
    assert cells(report, "docker_engine")["h3"]["status"] == "changed"
    assert "/var/lib/docker" in cells(report, "docker_engine")["h3"]["left"]
    assert bare.on("h3", OURS) == ""
    assert bare.on("h3", "command -v dockerd || echo none; getent group docker").split("\n")[0] == "none"
    assert bare.on("h3", "command -v containerd runc || echo none") == "none"
    assert "apparmor" not in cells(report, "docker_engine")["h3"]["left"]
    assert bare.on("h2", OURS) == before
    done, report = provision(bare, site, "--limit", "h3")
    assert done.returncode == 0, done.stderr + done.stdout
    assert {cell["host"] for cell in report["cells"]} == {"h3"}
    assert cells(report, "docker_engine")["h3"]["status"] == "changed"
    assert bare.on("h3", OURS) == before
    images_there = bare.on("h3", "docker image ls --format '{{.Repository}}:{{.Tag}}'")
    assert SLIM in images_there, "ddp-play image load put it there, not the role"
