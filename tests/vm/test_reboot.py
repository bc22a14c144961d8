"""`ddp-play reboot` of machines with kernels of their own, while jobs run there and wait for them."""

from __future__ import annotations

import json
import secrets
import time

from tests.waiting import wait_until

from .conftest import Site, timed
from .machines import RANKS
from .site import write_job

MARK = "/var/lib/ddp-play-drain.json"
# An emulated machine takes a minute or two to boot.
BACK_S = 900.0


def boots(site: Site) -> dict[str, str]:
    return {name: site.cluster.on(name, "cat /proc/sys/kernel/random/boot_id") for name in RANKS}


def process_job(site: Site, name: str, *command: str) -> tuple[str, ...]:
    """A job of one process on each of the two machines, which need not be provisioned for it."""
    path = write_job(site.cluster, name, image="", mounts=[], runtime="process", command=list(command))
    return str(path), "-e", "ddp_shared_dir="


def status(site: Site, name: str) -> str:
    return str(json.loads((site.home / "runs" / name / "run.json").read_text())["status"])


def drained(site: Site, name: str) -> bool:
    return site.cluster.ssh(name, f"test -e {MARK}").returncode == 0


def test_a_job_that_waits_starts_when_its_machines_are_back(site: Site) -> None:
    """The job that is there is waited for, a new one is refused, one with --wait starts after the reboot."""
    number, before = secrets.token_hex(3), boots(site)
    holds, waits = f"holds-{number}", f"waits-{number}"
    go = f"/var/tmp/{holds}"
    job = process_job(site, "holds", "sh", "-c", f"until test -e {go}; do sleep 1; done")
    started = site.play("run", *job, "--name", holds, "-d")
    assert started.returncode == 0, started.stderr
    wait_until(lambda: status(site, holds) == "running", timeout_s=300, what="the first job runs")
    with (
        timed("reboot of both while jobs run and wait"),
        site.begin("reboot", "--yes", "--wait", "20m", "--limit", "ranks") as roll,
    ):
        wait_until(lambda: drained(site, "vm1"), timeout_s=300, what="vm1 takes no new runs")
        refused = site.play("run", *process_job(site, "new", "true"), "--name", f"new-{number}")
        assert refused.returncode == 75, refused.stderr
        assert "the host takes no new runs: reboot by " in refused.stdout + refused.stderr
        queued = site.play("run", *process_job(site, "waits", "true"), "--name", waits, "-d", "--wait")
        assert queued.returncode == 0, queued.stderr
        wait_until(lambda: status(site, waits) == "waiting", timeout_s=300, what="the second job is in the queue")
        for name in RANKS:
            site.cluster.on(name, f"touch {go}")
        assert roll.wait(timeout=2 * BACK_S) == 0
    after = boots(site)
    assert {name for name in RANKS if after[name] != before[name]} == set(RANKS)
    wait_until(lambda: status(site, waits) == "succeeded", timeout_s=BACK_S, what="the job that waited has succeeded")
    assert status(site, holds) == "succeeded", "it was not disturbed"
    assert not any(drained(site, name) for name in RANKS)
    run = json.loads((site.home / "runs" / waits / "run.json").read_text())
    begun, ended = float(run["started"]), float(run["ended"])
    booted = {name: time.time() - float(site.cluster.on(name, "cut -d' ' -f1 /proc/uptime")) for name in RANKS}
    assert begun > min(booted.values()), "it started after the reboot of the first machine"
    # Between two machines of the roll both take runs; the second one is then waited for.
    assert not [name for name in RANKS if begun < booted[name] < ended], "no machine was rebooted under it"


def test_a_machine_that_does_not_come_back_stops_the_roll(site: Site) -> None:
    """Its login is switched off at boot, until four minutes after it."""
    starts = "ExecStart=/bin/sh -c 'sleep 240; systemctl enable --now ssh'"
    unit = f"[Service]\\n{starts}\\n[Install]\\nWantedBy=multi-user.target\\n"
    path = "/etc/systemd/system/late-ssh.service"
    site.cluster.on(
        "vm1", f'printf "{unit}" > {path}; systemctl --quiet enable late-ssh; systemctl --quiet disable ssh'
    )
    before = boots(site)["vm2"]
    try:
        done = site.play("reboot", "--yes", "--limit", "ranks", "-e", "host_reboot_timeout_s=100")
    finally:
        deadline = time.monotonic() + BACK_S
        while site.cluster.ssh("vm1", f"systemctl --quiet disable late-ssh; rm {path}").returncode:
            assert time.monotonic() < deadline, "vm1 did not come back at all"
            time.sleep(5)
    output = done.stdout + done.stderr
    assert done.returncode in (1, 69), output
    assert "not touched: vm2" in " ".join(output.split())
    assert "ddp-play reboot --yes" in output
    assert boots(site)["vm2"] == before
    assert drained(site, "vm1"), "nobody has verified it"
    assert site.play("reboot", "--open", "--limit", "vm1").returncode == 0
    assert not drained(site, "vm1")


def test_a_machine_whose_engine_does_not_start_again_stops_the_roll(site: Site) -> None:
    """It worked before the reboot, nothing starts it at boot, and the site names no unit that must be active."""
    units = "docker.socket docker.service"
    site.cluster.on("vm1", f"systemctl is-active docker.service && systemctl --quiet disable {units}")
    before = boots(site)
    try:
        done = site.play("reboot", "--yes", "--limit", "ranks", "-e", json.dumps({"host_reboot_units": []}))
        after = boots(site)
        closed = drained(site, "vm1")
    finally:
        site.cluster.on("vm1", f"systemctl --quiet enable {units}; systemctl start {units}", timeout_s=300)
        site.play("reboot", "--open", "--limit", "vm1")
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1, output
    assert "these units or mounts are not active: docker.service" in output
    assert "systemctl status docker.service" in output
    assert "not touched: vm2" in output
    assert (after["vm1"] != before["vm1"], after["vm2"] == before["vm2"]) == (True, True)
    assert closed, "nobody has verified it"
    assert not drained(site, "vm1")
