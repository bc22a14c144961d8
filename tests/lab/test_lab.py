"""The lab itself: its hosts are real enough, `up` is idempotent, `down` leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.lab import machine_resources
from ddp_play.lab.lifecycle import up
from ddp_play.lab.progress_listener import SilentListener
from ddp_play.lab.requirements import MachineResources
from ddp_play.lab.spec import LabSpec, make_spec

from .conftest import COMMAND
from .rank_jobs import SLIM, fresh, job

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab


def labelled(kind: list[str], lab: str) -> list[str]:
    """What the engine still has of a lab."""
    command = ["docker", *kind, "--quiet", "--filter", f"label=ddp-play.lab={lab}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def docker(*words: str) -> str:
    """What the engine of this machine answers; it must succeed."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.strip()


def test_up_twice_changes_nothing(lab3: Lab) -> None:
    before = labelled(["ps", "--all"], lab3.name), lab3.inventory.read_text()
    again = lab3.up("--hosts", "3", "--slots", "2,1,1")
    assert "was up already" in again.stdout
    assert (labelled(["ps", "--all"], lab3.name), lab3.inventory.read_text()) == before


def test_a_host_can_set_the_kernel_although_the_engine_was_reading_it(lab3: Lab) -> None:
    """The mount that hides it was busy while the engine started a program in the host, and stayed."""
    image = docker("inspect", "--format", "{{.Image}}", labelled(["ps"], lab3.name)[0])
    entry = "exec 3< /proc/sys/kernel/hostname; sed '$d' /usr/local/sbin/entry.sh | sh"
    rights = [f"--{option}=unconfined" for option in ("security-opt=seccomp", "security-opt=apparmor")]
    words = [*rights, "--cap-add=SYS_ADMIN", "--entrypoint=sh", image, "-c"]
    assert docker("run", "--rm", *words, f"{entry}; echo 77 > /proc/sys/net/core/somaxconn && echo set") == "set"


def test_up_with_other_options_is_refused(lab3: Lab) -> None:
    done = lab3.play("lab", "up", "--name", lab3.name, "--hosts", "2")
    assert done.returncode == 64
    assert "--hosts 3 --slots 2,1,1" in done.stderr
    assert f"lab down --name {lab3.name}" in done.stderr


def test_a_lab_of_another_home_is_refused(lab3: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    stranger = type(lab3)(lab3.name, tmp_path_factory.mktemp("stranger"))
    for verb in ("up", "down"):
        done = stranger.play("lab", verb, "--name", lab3.name)
        assert done.returncode == 64, verb
        assert str(lab3.home) in done.stderr
    assert lab3.status()["state"] == "up"


def test_status_names_hosts_addresses_and_slots(lab3: Lab) -> None:
    status = lab3.status()
    assert status["state"] == "up"
    assert status["inventory"] == str(lab3.inventory)
    assert [(host["name"], host["slots"], host["ssh"]) for host in status["hosts"]] == [
        ("h1", 2, True),
        ("h2", 1, True),
        ("h3", 1, True),
    ]
    assert len({host["addresses"][0] for host in status["hosts"]}) == 3


@pytest.mark.parametrize(("user", "uid"), [("root", "0"), ("ops", "1000")])
def test_both_users_get_in(lab3: Lab, user: str, uid: str) -> None:
    assert lab3.on("h2", "id -u", user=user) == uid
    assert lab3.on("h2", "sudo -n id -u", user=user) == "0"
    assert lab3.on("h2", "hostname", user=user) == "h2"


def test_systemd_runs_and_nothing_failed(lab3: Lab) -> None:
    assert lab3.on("h1", "systemctl is-system-running || systemctl --failed") == "running"
    assert lab3.on("h1", "systemd-run --wait --pipe --quiet echo unit", user="root") == "unit"


def test_hosts_know_and_reach_each_other(lab3: Lab) -> None:
    addresses = [host["addresses"][0] for host in lab3.status()["hosts"]]
    assert lab3.on("h1", "getent hosts h3").split()[0] == addresses[2]
    lab3.on("h1", f"ping -c 1 -W 5 {addresses[1]}")


def test_a_host_runs_containers_of_its_own(lab3: Lab) -> None:
    limits = "--memory 64m --cpus 1 --ipc host --init"
    assert lab3.on("h3", f"docker run --rm --net host {limits} {SLIM} python -c 'print(6 * 7)'") == "42"
    assert lab3.on("h3", f"docker run --rm --net host {SLIM} hostname") == "h3"


def test_the_image_is_loaded_once(lab3: Lab) -> None:
    done = lab3.play("image", "load", "-i", str(lab3.inventory), "--image", SLIM)
    assert done.returncode == 0
    assert "sent to 0 hosts, 3 hosts already had it" in done.stdout
    assert lab3.play("image", "list", "-i", str(lab3.inventory), "--image", SLIM).returncode == 0


def test_a_missing_image_is_named(lab3: Lab) -> None:
    done = lab3.play("image", "load", "-i", str(lab3.inventory), "--image", "nobody/nothing:1")
    assert done.returncode == 64
    assert "there is no image nobody/nothing:1 on this machine" in done.stderr
    assert "image build --cpu --tag nobody/nothing:1" in done.stderr
    listed = lab3.play("image", "list", "-i", str(lab3.inventory), "--image", "nobody/nothing:1")
    assert listed.returncode == 1
    assert listed.stdout.count("absent") == 3


def test_the_shared_directory_is_one_and_writable_by_users(lab3: Lab) -> None:
    lab3.on("h1", "echo from-h1 > /srv/ddp-play-shared/probe")
    assert lab3.on("h2", "cat /srv/ddp-play-shared/probe; rm /srv/ddp-play-shared/probe") == "from-h1"


def test_a_killed_host_comes_back_with_up(lab3: Lab) -> None:
    subprocess.run(["docker", "kill", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)
    status = lab3.status()
    assert status["state"] == "partial"
    assert [host["state"] for host in status["hosts"]] == ["running", "running", "exited"]
    lab3.up("--hosts", "3", "--slots", "2,1,1")
    assert lab3.status()["state"] == "up"
    assert lab3.on("h3", f"docker image inspect --format ok {SLIM}") == "ok"


def test_two_fabrics_have_a_slow_network_for_ssh(other_lab: Lab) -> None:
    other_lab.up("--hosts", "2", "--fabrics", "2", "--no-docker", "--user", "root")
    slow, fast = other_lab.status()["hosts"][0]["addresses"]
    interfaces = other_lab.on("h1", "ip -br -4 addr").splitlines()
    assert any(line.startswith("eth0") and slow in line for line in interfaces)
    assert any(line.startswith("eth1") and fast in line for line in interfaces)
    shaped = other_lab.on("h1", "tc qdisc show dev eth0", user="root")
    assert "tbf" in shaped
    assert "ansible_user: root" in other_lab.inventory.read_text()
    assert other_lab.on("h1", "command -v docker || echo none") == "none"


def test_down_leaves_nothing(other_lab: Lab) -> None:
    other_lab.up("--hosts", "2", "--no-docker")
    assert len(labelled(["ps", "--all"], other_lab.name)) == 2
    done = other_lab.down()
    assert done.returncode == 0
    assert "2 hosts, 3 volumes, 1 network" in done.stdout
    for kind in (["ps", "--all"], ["volume", "ls"], ["network", "ls"]):
        assert labelled(kind, other_lab.name) == []
    assert not (other_lab.home / "lab" / other_lab.name).exists()
    assert "there was no lab" in other_lab.down().stdout


@pytest.mark.parametrize("verb", ["up", "down"])
def test_an_interrupted_up_can_be_finished_or_removed(other_lab: Lab, verb: str) -> None:
    words = [COMMAND, "lab", "up", "--name", other_lab.name, "--hosts", "2", "--no-docker"]
    started = subprocess.Popen(words, env=other_lab.environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not labelled(["ps", "--all"], other_lab.name) and time.monotonic() < deadline:
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert "run the same command again to continue" in err
    if verb == "up":
        other_lab.up("--hosts", "2", "--no-docker")
        assert other_lab.status()["state"] == "up"
        assert other_lab.on("h2", "id -un") == "ops"
    else:
        assert other_lab.down().returncode == 0
        assert labelled(["volume", "ls"], other_lab.name) == []


def test_a_clashing_subnet_is_refused_before_anything_is_made(other_lab: Lab, lab3: Lab) -> None:
    taken = lab3.status()["hosts"][0]["addresses"][0].rsplit(".", 1)[0] + ".0/25"
    done = other_lab.play("lab", "up", "--name", other_lab.name, "--subnet", taken)
    assert done.returncode == 64
    assert "which this machine already uses" in done.stderr
    assert labelled(["network", "ls"], other_lab.name) == []


@pytest.mark.parametrize(
    ("memory_mib", "disk_mib", "words"),
    [(300, 100_000, "need about 646 MiB of memory, 300 MiB are available"), (100_000, 50, "of disk, 50 MiB are free")],
)
def test_too_little_room_is_said_before_anything_is_made(
    other_lab: Lab, monkeypatch: pytest.MonkeyPatch, memory_mib: int, disk_mib: int, words: str
) -> None:
    """The engine and all else are real; only the machine is made smaller than it is."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(other_lab.home))
    monkeypatch.setattr(machine_resources, "read_resources", lambda *_, **__: MachineResources(memory_mib, disk_mib))
    with pytest.raises(HostNotReady, match=words):
        up(make_spec(LabSpec(other_lab.name, 3, ())), progress=SilentListener())
    for kind in (["ps", "--all"], ["volume", "ls"], ["network", "ls"]):
        assert labelled(kind, other_lab.name) == []
    assert not (other_lab.home / "lab" / other_lab.name).exists()


def test_a_container_with_the_name_of_a_host_is_left_alone(other_lab: Lab, lab3: Lab) -> None:
    name = f"ddp-play-{other_lab.name}-h1"
    image = docker("inspect", "--format", "{{.Image}}", f"ddp-play-{lab3.name}-h1")
    docker("create", "--name", name, image)
    try:
        done = other_lab.play("lab", "up", "--name", other_lab.name, "--no-docker")
        assert done.returncode == 64
        assert f"containers with these names exist and do not belong to a lab: {name}" in done.stderr
        assert labelled(["network", "ls"], other_lab.name) == []
    finally:
        docker("rm", name)


def test_a_lab_that_ran_a_job_leaves_nothing(other_lab: Lab, tmp_path: Path) -> None:
    other_lab.up("--hosts", "1", "--slots", "2", "--fabrics", "2")
    inventory = str(other_lab.inventory)
    assert other_lab.play("image", "load", "-i", inventory, "--image", SLIM).returncode == 0
    done = other_lab.play("run", job(tmp_path, {"command": ["true"]}), "-i", inventory, "--name", fresh("last"))
    assert done.returncode == 0, done.stderr
    containers = labelled(["ps", "--all"], other_lab.name)
    mounts = '{{range .Mounts}}{{if eq .Type "volume"}}{{println .Name}}{{end}}{{end}}'
    volumes = docker("inspect", "--format", mounts, *containers).split()
    networks = docker(
        "inspect", "--format", "{{range .NetworkSettings.Networks}}{{println .NetworkID}}{{end}}", *containers
    )
    assert other_lab.down().returncode == 0
    assert not {*containers} & {*docker("ps", "--all", "--quiet").split()}
    assert len(volumes) >= 2
    assert not {*volumes} & {*docker("volume", "ls", "--quiet").split()}
    assert len(networks.split()) == 2
    assert not {*networks.split()} & {*docker("network", "ls", "--quiet", "--no-trunc").split()}
    left = sorted(path.name for path in (other_lab.home / "lab").iterdir() if other_lab.name in path.name)
    assert left == []
