"""A Slurm cluster of bare hosts: provisioned, used, busy, with a sick node, and taken back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

from .conftest import Lab, lab_of
from .test_brownfield import differences, listing

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("h1", "h2", "h3")
SLURM = ("--tags", "slurm", "-e", "slurm_health_interval_s=2")
# On a loaded machine; a health check is due every 2 seconds.
DRAIN_S = 60
# Caches, lists and logs of the package manager, and the list of past jobs, which deprovision names.
STAYS = ("file /var/cache/", "file /var/lib/apt/", "file /var/lib/dpkg/", "file /var/lib/ucf/", "file /var/log/")
JOURNAL = "file /var/log/journal/"
MARK = "/var/lib/ddp-play-quarantine.json"


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine, in the groups of role slurm."""
    with lab_of(lab_home, "slurm", "--hosts", "3", "--no-docker", "--engine", "slurm") as found:
        for host in HOSTS:
            found.put(host, Path(__file__).parent / "host_listing.py", "/opt")
        yield found


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, dict[str, str]]:
    """What there was on each host."""
    return {host: listing(lab, host) for host in HOSTS}


def play(lab: Lab, verb: str, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status of a verb with role slurm, and the role's cell of each host."""
    done = lab.play(verb, "-i", str(lab.inventory), "--json", *SLURM, *words, timeout_s=600)
    report = json.loads(done.stdout)
    return done.returncode, {cell["host"]: cell for cell in report["cells"]}


def statuses(cells: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {host: cell["status"] for host, cell in cells.items()}


def node(lab: Lab, host: str) -> str:
    """State and reason of a node."""
    return lab.on("h1", f"sinfo --noheader --Node --nodes={host} --format='%T %E'")


@pytest.fixture(scope="module")
def cluster(lab: Lab, before: dict[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
    """The cells of the first provisioning."""
    assert set(before) == set(HOSTS)
    code, cells = play(lab, "provision")
    assert code == 0, cells
    return cells


def test_a_configuration_of_the_site_is_refused_before_any_change(lab: Lab, before: dict[str, dict[str, str]]) -> None:
    lab.on("h2", "mkdir -p /etc/slurm; echo ClusterName=theirs > /etc/slurm/slurm.conf", user="root")
    code, cells = play(lab, "provision")
    lab.on("h2", "rm -r /etc/slurm", user="root")
    assert code == 1
    assert set(statuses(cells).values()) == {"failed"}
    assert "h2 has an /etc/slurm/slurm.conf of its site" in cells["h2"]["message"]
    assert [row for row in differences(before["h1"], listing(lab, "h1")) if not row.startswith(JOURNAL)] == []


def test_bare_hosts_become_a_cluster_that_runs_jobs(lab: Lab, cluster: dict[str, dict[str, Any]]) -> None:
    assert statuses(cluster) == dict.fromkeys(HOSTS, "changed")
    assert sorted(lab.on("h2", "srun --nodes=3 hostname").split()) == list(HOSTS)
    keys = {
        lab.on(host, "stat -c '%a %U' /etc/munge/munge.key; sha256sum /etc/munge/munge.key", user="root")
        for host in HOSTS
    }
    assert len(keys) == 1
    assert keys.pop().startswith("400 munge")


@pytest.mark.usefixtures("cluster")
def test_a_second_time_changes_nothing(lab: Lab) -> None:
    code, cells = play(lab, "provision")
    assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "ok"))
    assert [cell for cell in cells.values() if cell["num_changed"]] == []


@pytest.mark.usefixtures("cluster")
def test_a_cluster_with_a_job_is_left_alone(lab: Lab) -> None:
    job = lab.on("h1", "cd /tmp && sbatch --parsable --nodes=1 --wrap='sleep 600'")
    try:
        wait_until(lambda: lab.on("h1", f"squeue --noheader --job={job} --format=%T") == "RUNNING", timeout_s=30)
        code, cells = play(lab, "provision", "-e", "slurm_kill_wait_s=45")
        assert (code, statuses(cells)) == (0, dict.fromkeys(HOSTS, "skipped"))
        assert f"Slurm runs 1 job: {job}" in cells["h2"]["reason"]
        assert lab.on("h1", "grep KillWait /etc/slurm/slurm.conf") == "KillWait=60"
    finally:
        lab.on("h1", f"scancel {job}")
    wait_until(lambda: lab.on("h1", "squeue --noheader") == "", timeout_s=60)


@pytest.mark.usefixtures("cluster")
def test_a_sick_node_is_drained_named_and_resumed(lab: Lab) -> None:
    lab.on("h2", f"touch {MARK}", user="root")
    try:
        wait_until(lambda: node(lab, "h2").startswith("drained ddp-play: in quarantine"), timeout_s=DRAIN_S)
        code, cells = play(lab, "verify")
        assert (code, statuses(cells)) == (1, {"h1": "ok", "h2": "failed", "h3": "ok"})
        assert "ddp-play: in quarantine" in cells["h2"]["message"]
    finally:
        lab.on("h2", f"rm --force {MARK}", user="root")
    wait_until(lambda: node(lab, "h2").startswith("idle "), timeout_s=DRAIN_S)


@pytest.mark.usefixtures("cluster")
def test_a_drain_of_somebody_else_stays(lab: Lab) -> None:
    lab.on("h3", "scontrol update nodename=h3 state=drain reason=disk", user="root")
    lab.on("h3", "/etc/slurm/ddp-play-health", user="root")
    assert node(lab, "h3") == "drained disk"
    lab.on("h3", "scontrol update nodename=h3 state=resume", user="root")
    wait_until(lambda: node(lab, "h3").startswith("idle "), timeout_s=DRAIN_S)


@pytest.mark.usefixtures("cluster")
def test_deprovision_lets_jobs_end_and_leaves_the_hosts_as_they_were(
    lab: Lab, before: dict[str, dict[str, str]]
) -> None:
    wait = "until test -e /tmp/go-on; do sleep 1; done"
    job = lab.on("h1", f"cd /tmp && sbatch --parsable --nodelist=h3 --wrap='{wait}'")
    wait_until(lambda: lab.on("h1", f"squeue --noheader --job={job} --format=%T") == "RUNNING", timeout_s=30)
    done = lab.play("deprovision", "-i", str(lab.inventory), *SLURM, "--limit", "h3", "--check", timeout_s=600)
    assert "drain of node h3 until its jobs have ended" in done.stdout, done.stdout + done.stderr
    assert node(lab, "h3").startswith(("allocated ", "mixed "))
    code, cells = play(lab, "deprovision", "--limit", "h3", "--yes", "-e", "slurm_drain_timeout_s=5")
    assert (code, statuses(cells)) == (1, {"h3": "failed"})
    assert f"jobs still run there: {job}. " in " ".join(cells["h3"]["message"].split())
    lab.on("h3", "(sleep 15; touch /tmp/go-on) >/dev/null 2>&1 &")
    code, cells = play(lab, "deprovision", "--limit", "h3", "--yes")
    assert (code, statuses(cells)) == (0, {"h3": "changed"})
    lab.on("h3", "rm /tmp/go-on")
    assert lab.on("h1", f"scontrol show job {job} | grep -o JobState=COMPLETED") == "JobState=COMPLETED"
    assert re.fullmatch(r"drained\*? ddp-play: deprovision", node(lab, "h3"))  # the star: slurmd is gone
    assert sorted(lab.on("h1", "srun --nodes=2 hostname").split()) == ["h1", "h2"]
    code, cells = play(lab, "deprovision", "--limit", "all", "--yes")
    assert code == 0, cells
    assert "/var/log/slurm" in cells["h1"]["left"]
    for host in HOSTS:
        rows = differences(before[host], listing(lab, host))
        assert [row for row in rows if not row.startswith(STAYS)] == []
