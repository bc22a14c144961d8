"""Faults and what undoes them: each takes the scene of its row."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.faults.scene import Scene, wait_until
from tests.faults.stage import HOSTS, Here, OnLab

SECRET = "correct-horse-7531"
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


# -- ranks -------------------------------------------------------------------------------------------
def kill_rank(scene: Scene) -> None:
    """SIGKILL from outside, as by an administrator or the kernel."""
    scene.signal_rank(2, "KILL")


def stop_rank(scene: Scene) -> None:
    """SIGSTOP from outside: alive, and doing nothing."""
    scene.signal_rank(2, "STOP")


def confine(scene: Scene) -> None:
    """A memory limit around rank 2, a little above what it uses, before it begins to eat."""
    host, pid = scene.rank_process(2)
    group = f"ddp-play-fault-{scene.run}"
    scene.notes["group"] = group
    scene.stage.on(
        host,
        f"""
        if test -d /sys/fs/cgroup/memory; then base=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
        else base=/sys/fs/cgroup limit=memory.max; fi
        mkdir $base/{group} && echo 256M >$base/{group}/$limit && echo {pid} >$base/{group}/cgroup.procs
        """,
    )


def release(scene: Scene) -> None:
    """Take the limit's group away again."""
    if group := scene.notes.get("group"):
        scene.stage.on("h2", f"rmdir /sys/fs/cgroup/memory/{group} /sys/fs/cgroup/{group} 2>/dev/null; true")


def has_evidence(scene: Scene) -> None:
    """Of every rank, on every host: what /proc had, and its stack."""
    for rank in range(4):
        for kind in ("proc", "stack"):
            path = scene.bundle / "evidence" / f"rank-{rank}.{kind}"
            assert path.is_file(), path
    assert "== sockets\n" in (scene.bundle / "evidence" / "rank-0.proc").read_text()


def says_why_it_died(scene: Scene) -> None:
    """The kernel's own words, and the flag."""
    document = scene.document()
    assert document["ranks"][2]["oom"] is True
    assert "memory" in document["verdict"]["kernel"][-1], document["verdict"]


def is_in_the_kernel_log(scene: Scene) -> None:
    """The lines are those of this very container: all containers here share one kernel log."""
    says_why_it_died(scene)
    assert any("oom-kill:" in line and "/docker/" in line for line in scene.document()["verdict"]["kernel"])


def remove_container(scene: Scene) -> None:
    """Somebody removes the container of rank 2 by hand."""
    scene.mark()
    scene.stage.on("h2", f"docker rm -f ddp-{scene.run}-a1-r2")


# -- engines -----------------------------------------------------------------------------------------
def stop_engine(scene: Scene) -> None:
    """The engine of h2 is stopped, and takes its containers down."""
    scene.mark()
    scene.stage.on("h2", "systemctl stop docker.socket docker")


def start_engine(scene: Scene) -> None:
    """As before."""
    scene.stage.on("h2", "systemctl start docker.socket docker && timeout 60 docker version >/dev/null")


def sweeps_when_the_engine_is_back(scene: Scene) -> None:
    """run.json names what could not be removed, and gc removes it."""
    assert "container" in json.dumps(scene.document()["left_behind"].get("h2", [])), scene.document()["left_behind"]
    start_engine(scene)
    scene.play("gc", "-i", str(scene.stage.inventory), "--yes")
    assert scene.child is not None
    assert scene.child.wait(120) == 0, scene.text()[-2000:]
    assert scene.look("h2") == ()


def keep_containers(scene: Scene) -> None:
    """live-restore on h2: containers outlive their engine."""
    script = """import json, pathlib; p = pathlib.Path("/etc/docker/daemon.json")
d = json.loads(p.read_text()) if p.exists() else {}; d["live-restore"] = True
p.parent.mkdir(exist_ok=True); p.write_text(json.dumps(d))"""
    scene.stage.on(
        "h2",
        f"cp /etc/docker/daemon.json /tmp/daemon.json 2>/dev/null; python3 -c '{script}' && systemctl reload docker",
    )
    wait_until(
        lambda: scene.stage.on("h2", "docker info --format '{{.LiveRestoreEnabled}}'") == "true",
        timeout_s=30,
        what="live-restore on h2",
    )


def restart_engine(scene: Scene) -> None:
    """The engine goes away under its containers and comes back."""
    scene.stage.on("h2", "systemctl restart docker")


def let_containers_go(scene: Scene) -> None:
    """The engine as it was."""
    scene.stage.on(
        "h2", "mv /tmp/daemon.json /etc/docker/daemon.json 2>/dev/null || rm -f /etc/docker/daemon.json; "
        "systemctl reload docker"
    )  # fmt: skip


def hide_image(scene: Scene) -> None:
    """h3 has no image of that name."""
    scene.stage.on("h3", "docker tag ddp-play-rank:slim kept:1 && docker rmi ddp-play-rank:slim")


def show_image(scene: Scene) -> None:
    """As before."""
    scene.stage.on("h3", "docker tag kept:1 ddp-play-rank:slim && docker rmi kept:1")


# -- network and clock -------------------------------------------------------------------------------
DROP = "INPUT -p tcp --dport 22 -j DROP"


def cut_ssh(scene: Scene) -> None:
    """Nothing reaches the SSH port of h2 until we have noticed; its ranks talk on."""
    scene.stage.on("h2", f"iptables -I {DROP}")
    wait_until(lambda: _host_events(scene, "silent"), timeout_s=30, what="h2 is silent")
    before = scene.step()
    scene.stage.on("h2", f"iptables -D {DROP}")
    wait_until(lambda: _host_events(scene, "back"), timeout_s=40, what="h2 is back")
    wait_until(lambda: scene.step(2) > before, timeout_s=20, what="the view of rank 2 goes on")


def mend_ssh(scene: Scene) -> None:
    """Whatever happened, the port is open."""
    scene.stage.on("h2", f"while iptables -D {DROP} 2>/dev/null; do :; done")


def _host_events(scene: Scene, state: str) -> bool:
    return any(row["host"] == "h2" and row["state"] == state for row in scene.events("host"))


def cut_network(scene: Scene, host: str) -> None:
    """No packet in or out; what is mounted stays mounted, as on a storage network of its own."""
    scene.mark()
    scene.notes.setdefault("cut", set()).add(host)
    scene.stage.on(host, "iptables -I INPUT -i eth0 -j DROP; iptables -I OUTPUT -o eth0 -j DROP")


def mend_network(scene: Scene) -> None:
    """Whatever was cut, packets flow."""
    script = (
        "while iptables -D INPUT -i eth0 -j DROP 2>/dev/null; do :; done;"
        "while iptables -D OUTPUT -o eth0 -j DROP 2>/dev/null; do :; done"
    )
    for host in scene.notes.get("cut", ()):
        scene.stage.on(host, script)


def cut_for_five_seconds(scene: Scene) -> None:
    """h2 hears and says nothing for five seconds."""
    cut_network(scene, "h2")
    time.sleep(5)
    mend_network(scene)
    before = scene.step(2)
    wait_until(lambda: scene.step(2) > before, timeout_s=40, what="rank 2 goes on")


def cut_for_long(scene: Scene) -> None:
    """h2 hears and says nothing until all is over."""
    cut_network(scene, "h2")
    scene.down.add("h2")


def cut_head(scene: Scene) -> None:
    """The head hears and says nothing, and its rank 0 is alive behind the cut."""
    cut_network(scene, "h1")
    scene.down.add("h1")


def ended_by_itself_and_swept(scene: Scene) -> None:
    """Behind the cut the lease has ended the rank; after a minute the network is back, and gc finds what is left."""
    wait_until(lambda: _rank_row(scene, "h2", 2)["ended"], timeout_s=40, what="h2 ended its rank")
    time.sleep(max(0.0, scene.fault_at + 60 - time.time()))
    mend_network(scene)
    sweep(scene, "h2")


def old_head_ended_in_time(scene: Scene) -> None:
    """The old rank 0 lived on behind the cut, and it was over before the next attempt began."""
    ended = _rank_row(scene, "h1", 0)["ended"]
    began = min(row["started"] for row in scene.document()["ranks"])
    assert scene.fault_at + 3 < ended < began, (scene.fault_at, ended, began)
    assert scene.document()["left_behind"].get("h1"), scene.document()["left_behind"]
    mend_network(scene)
    sweep(scene, "h1")


def _rank_row(scene: Scene, host: str, rank: int) -> dict[str, Any]:
    """What the guard of a host knows of a rank; this machine's hosts have one clock."""
    return dict(scene.state(host)["ranks"][str(rank)])


def power_off(scene: Scene, host: str) -> None:
    """A host is gone at once, and nothing tells anybody."""
    assert isinstance(scene.stage, OnLab)
    scene.down.add(host)
    scene.notes["off"] = host
    scene.mark()
    scene.stage.power_off(host)


def power_off_second(scene: Scene) -> None:
    """h2 loses power."""
    power_off(scene, "h2")


def power_off_head(scene: Scene) -> None:
    """h1, which has rank 0, loses power."""
    power_off(scene, "h1")


def power_on(scene: Scene) -> None:
    """It has power again, and is up: its engine answers, and SSH does."""
    host = scene.notes.pop("off", None)
    if host is None:
        return
    assert isinstance(scene.stage, OnLab)
    lab = scene.stage.lab
    scene.stage.power_on(host)

    def up() -> bool:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            scene.stage.on(host, "docker version >/dev/null")
            return lab.play("lab", "ssh", "--name", lab.name, host, "true").returncode == 0
        return False

    wait_until(up, timeout_s=120, what=f"{host} is up again", every_s=1)


def is_swept_after_boot(scene: Scene) -> None:
    """What the host kept over the loss of power is found when it is back."""
    host = scene.notes["off"]
    power_on(scene)
    sweep(scene, host)


def sweep(scene: Scene, host: str) -> None:
    """gc removes what the run left on a host; one that was cut off may hold on to its broken line for a moment."""

    def swept() -> bool:
        scene.play("gc", "-i", str(scene.stage.inventory), "--yes")
        assert scene.child is not None
        assert scene.child.wait(120) == 0, scene.text()[-2000:]
        return scene.look(host) == ()

    wait_until(swept, timeout_s=90, what=f"nothing is left on {host}", every_s=2)


def set_clock_ahead(scene: Scene) -> None:
    """Every Python that the controller starts on h3 lives five minutes in the future; the clock itself is shared."""
    late = "/usr/local/bin/python-ahead"
    script = (
        "test -e /usr/bin/faketime || (apt-get update -qq && apt-get install -y -qq faketime) >/dev/null 2>&1\n"
        "lib=$(ls /usr/lib/*/faketime/libfaketime.so.1)\n"
        f"printf '#!/bin/sh\\nLD_PRELOAD=%s FAKETIME=+300s exec python3 \"$@\"\\n' $lib"
        f" >{late} && chmod +x {late}"
    )
    scene.stage.on("h3", script)
    scene.options += ("-e", "@" + str(_interpreters(scene, late)))


def _interpreters(scene: Scene, late: str) -> Path:
    path = scene.root / "clock.json"
    choice = "{{ '" + late + "' if inventory_hostname == 'h3' else '/usr/bin/python3' }}"
    path.write_text(json.dumps({"ansible_python_interpreter": choice}))
    return path


def tells_times_on_one_clock(scene: Scene) -> None:
    """All ranks began and ended while the run lasted, on the controller's clock."""
    document = scene.document()
    for row in document["ranks"]:
        assert document["created"] <= row["started"] <= row["ended"] <= document["ended"] + 1, row
    plan = json.loads((scene.bundle / "plan.json").read_text())
    assert any("h3" in text and "clock" in text for text in plan["warnings"]), plan["warnings"]


def take_port(scene: Scene) -> None:
    """Another program listens on the first port of the range."""
    listener = socket.create_server(("0.0.0.0", 29870))
    scene.notes["listener"] = listener


def give_port(scene: Scene) -> None:
    """It ends."""
    scene.notes["listener"].close()


def took_the_next_port(scene: Scene) -> None:
    """The second one of the range."""
    assert scene.document()["head_port"] == 29871


# -- attempts and runs beside one another ------------------------------------------------------------
def begun_again(scene: Scene) -> bool:
    """Does the second attempt train?"""
    return scene.first != scene.bundle and scene.step() >= 1


def kill_guard(scene: Scene) -> None:
    """The guard of h2 is gone, and nobody there can tell us anything."""
    pid = scene.state("h2")["guard_pid"]
    scene.mark()
    scene.stage.on("h2", f"kill -KILL {pid}")


def kill_rank_twice(scene: Scene) -> None:
    """SIGKILL for rank 2, and again when the gang trains again."""
    scene.signal_rank(2, "KILL")
    wait_until(lambda: begun_again(scene), timeout_s=120, what="the second attempt trains")
    scene.signal_rank(2, "KILL", attempt=2)


def share_directory(scene: Scene) -> None:
    """All hosts share a directory."""
    where = scene.root / "shared"
    where.mkdir()
    assert isinstance(scene.stage, Here)
    scene.stage.write_inventory(ddp_shared_dir=str(where))


def crash_with_a_torn_checkpoint(scene: Scene) -> None:
    """A rank is killed, and the newest checkpoint is as a crash in the middle of a write leaves it."""

    def checkpoints() -> list[Path]:
        found = (scene.root / "shared").glob(f".ddp-play/{scene.run}/src/checkpoints/step-*/weights.pt")
        return sorted(found, key=lambda path: path.stat().st_mtime)

    wait_until(lambda: len(checkpoints()) > 1, timeout_s=120, what="two checkpoints")
    scene.signal_rank(2, "KILL")
    torn = checkpoints()[-1]
    torn.write_bytes(torn.read_bytes()[:1000])
    scene.notes["torn"] = int(torn.parent.name.rpartition("-")[2])


def resumed_from_the_one_before(scene: Scene) -> None:
    """Not from the torn one, and not from the beginning."""
    found = re.search(rb"resuming after step (\d+)", scene.log(0))
    assert found, scene.log(0)[-2000:]
    assert 0 < int(found[1]) < scene.notes["torn"], (found[1], scene.notes["torn"])


def stop_another(scene: Scene) -> None:
    """A second run on the same hosts, and `ddp-play stop` for it; the first goes on."""
    other = f"{scene.run}-b"
    words = ("run", str(scene.root / "train.yml"), "-i", str(scene.stage.inventory), "--name", other, *scene.options)
    log = scene.stage.home / "runs" / other / "logs" / "rank-0.log"
    with (scene.root / "other").open("ab") as screen:
        child = scene.popen(words, screen)
        try:
            wait_until(lambda: log.exists() and b" step 3 " in log.read_bytes(), timeout_s=120, what="the other trains")
            assert scene.popen(("stop", other), screen).wait(60) == 0, (scene.root / "other").read_text()
            assert child.wait(60) == 130
        finally:
            child.kill()
    document = json.loads((scene.stage.home / "runs" / other / "run.json").read_text())
    assert document["status"] == "stopped", document
    assert scene.child is not None
    assert scene.child.poll() is None, "the first goes on"
    before = scene.step()
    wait_until(lambda: scene.step() > before, timeout_s=20, what="the first goes on")


# -- the controller ----------------------------------------------------------------------------------
def kill_controller(scene: Scene) -> None:
    """Everything of ours on the controller is gone at once; then somebody attaches."""
    for pid in scene.controller_pids():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    assert scene.child is not None
    scene.child.wait(10)
    scene.play("attach", scene.run)


def interrupt(scene: Scene) -> None:
    """Ctrl-C."""
    scene.mark()
    assert scene.child is not None
    os.kill(scene.child.pid, signal.SIGINT)


def interrupt_twice(scene: Scene) -> None:
    """Ctrl-C, and again when the first has been heard."""
    interrupt(scene)
    wait_until((scene.bundle / "control" / "stop").exists, timeout_s=20, what="the first Ctrl-C is heard")
    time.sleep(0.3)
    assert scene.child is not None
    os.kill(scene.child.pid, signal.SIGINT)


def in_discover(scene: Scene) -> None:
    """Ctrl-C when the playbook has begun."""
    wait_until(lambda: scene.events("play"), timeout_s=60, what="the play has begun", every_s=0.02)
    interrupt(scene)


def in_launch(scene: Scene) -> None:
    """Ctrl-C when the hosts are being prepared."""
    _wait_phase(scene, "preparing")
    interrupt(scene)


def in_collect(scene: Scene) -> None:
    """Ctrl-C when the artifacts come home."""
    _wait_phase(scene, "collecting")
    interrupt(scene)


def in_collect_twice(scene: Scene) -> None:
    """The same, and again."""
    _wait_phase(scene, "collecting")
    interrupt_twice(scene)


def _wait_phase(scene: Scene, phase: str) -> None:
    def there() -> bool:
        return any(row["phase"] == phase for row in scene.events("phase"))

    wait_until(there, timeout_s=180, what=phase, every_s=0.02)


def small_home(scene: Scene) -> None:
    """The controller's state is on a disk of eight megabytes."""
    mount(scene, scene.stage.home, 8)


def fill_home(scene: Scene) -> None:
    """The ranks print more than there is room for."""
    wait_until(
        lambda: any("no space left" in row["message"] for row in scene.events("warning")),
        timeout_s=120,
        what="the full disk is noticed",
    )


def attach_brings_it_home(scene: Scene) -> None:
    """With room again everything is fetched, to the last byte, and the hosts are clean."""
    subprocess.run(["mount", "-o", "remount,size=200m", str(scene.stage.home)], check=True)
    scene.play("attach", scene.run)
    assert scene.child is not None
    assert scene.child.wait(120) == 0, scene.text()[-3000:]
    assert scene.document()["status"] == "succeeded"
    assert scene.compare_logs(scene.document()) == []
    assert scene.look("h1") == ()


def mount(scene: Scene, where: Path, mib: int) -> None:
    """A small file system in memory."""
    where.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "tmpfs", str(where)], check=True)
    scene.notes.setdefault("mounts", []).append(where)


def unmount(scene: Scene) -> None:
    """What was mounted for this row."""
    for where in scene.notes.get("mounts", []):
        subprocess.run(["umount", "-l", str(where)], check=False, capture_output=True)


# -- the shared directory ----------------------------------------------------------------------------
def share(scene: Scene) -> None:
    """All hosts share a small directory."""
    where = scene.root / "shared"
    mount(scene, where, 16)
    assert isinstance(scene.stage, Here)
    scene.stage.write_inventory(ddp_shared_dir=str(where))


def share_read_only(scene: Scene) -> None:
    """The mount turns read-only, as a file system does after an error."""
    scene.mark()
    subprocess.run(["mount", "-o", "remount,ro", str(scene.notes["mounts"][0])], check=True)


def says_what_stays_in_the_shared_directory(scene: Scene) -> None:
    """It could not be removed, and run.json says so."""
    assert "Read-only" in json.dumps(scene.document()["left_behind"]), scene.document()["left_behind"]


def share_full(scene: Scene) -> None:
    """Somebody fills it."""
    scene.mark()
    with contextlib.suppress(OSError), (scene.notes["mounts"][0] / "filler").open("wb") as filler:
        while True:
            filler.write(bytes(1 << 20))


def share_gone(scene: Scene) -> None:
    """The mount is gone from under the ranks."""
    scene.mark()
    subprocess.run(["umount", "-l", str(scene.notes["mounts"][0])], check=True)


# -- output ------------------------------------------------------------------------------------------
def watch_the_controller(scene: Scene) -> None:
    """What the controller uses while 64 ranks print: CPUs and memory."""
    _wait_phase(scene, "running")
    time.sleep(3)
    pids = scene.controller_pids()
    before, began = _cpu_s(pids), time.monotonic()
    most = 0
    while time.monotonic() - began < 5:
        most = max(most, sum(_rss_mib(pid) for pid in pids))
        time.sleep(0.5)
    scene.notes["cpus"] = (_cpu_s(pids) - before) / (time.monotonic() - began)
    scene.notes["rss_mib"] = most


def _cpu_s(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / CLOCK_TICKS


def _rss_mib(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20
    return 0


def used_little_and_lost_nothing(scene: Scene) -> None:
    """Less than a core and 300 MB, and every line is there."""
    cpus, rss = scene.notes["cpus"], scene.notes["rss_mib"]
    scene.notes["remark"] = f"controller: {cpus:.2f} CPUs, {rss} MiB"
    assert cpus < 1.0, scene.notes
    assert rss < 300, scene.notes
    for rank in range(64):
        lines = scene.log(rank).splitlines()
        assert len(lines) == 10_000, (rank, len(lines))
        assert [int(line.split()[1]) for line in lines] == list(range(10_000))


# -- secrets -----------------------------------------------------------------------------------------
def look_for_secret_on_hosts(scene: Scene) -> None:
    """While it runs: command lines and environments of all processes, what the engine tells, our files."""
    pattern = f"{SECRET[:4]}[{SECRET[4]}]{SECRET[5:]}"  # so that the search does not find itself
    for host in HOSTS:
        script = f"""
        grep -las '{pattern}' /proc/[0-9]*/cmdline /proc/[0-9]*/environ
        ids=$(command -v docker >/dev/null && docker ps -aq --filter label=ddp-play.run={scene.run} 2>/dev/null)
        test -z "$ids" || docker inspect $ids | grep -c '{pattern}' | grep -v '^0$'
        grep -rlas '{pattern}' {scene.host_dir(host)} 2>/dev/null
        true"""
        assert scene.stage.on(host, script) == "", host
    path = scene.stage.on("h1", f"cat /dev/shm/ddp-play-*/{scene.run}.*/TOKEN")
    assert path.startswith(SECRET)  # it did arrive


def look_for_secret_here(scene: Scene) -> None:
    """Afterwards: logs, run.json, plan, env-files, events, ansible's artifacts, everything."""
    for path in scene.stage.home.rglob("*"):
        if path.is_file() and scene.run in str(path):
            assert SECRET.encode() not in path.read_bytes(), path
