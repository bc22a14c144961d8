"""A host that somebody works on: every role that disrupts changes nothing and says what is pending."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules.host_drain import MARK

from tests.waiting import wait_until

from .busy_host import ENVIRONMENT, EXPORT, HOST, VARIABLES, at_work, lived_in, provision
from .conftest import COMMAND, Lab
from .rank_jobs import SLIM, job

if TYPE_CHECKING:
    from collections.abc import Iterator

REBOOT = str(Path(__file__).resolve().parents[2] / "playbooks" / "reboot.yml")
ROLES = (
    *("base_os", "rdma", "nvidia_driver", "nvidia_container_toolkit"),
    *("nfs_server", "python_env", "monitoring"),
)
# A container that is not ours, and a rank of another user: a guard's command line as the roles know it.
DATABASE = f"docker run --detach --name db {SLIM} sleep 900"
WORK = f"{DATABASE}; systemd-run --quiet --unit=rank --uid=nobody python3 -I -S /srv/wait.py guard /home/alice/night"
BUSY = f"1 container running: db ({SLIM}); ranks running: /home/alice/night"
# Packages, files, boot, engine, container, rank and directory: what no role may touch.
UNTOUCHED = (
    "dpkg-query -W | sha256sum; find /etc /opt -newer /root/before -type f | sort; cat /proc/sys/kernel/random/boot_id;"
    " systemctl show -p InvocationID docker.service rank.service; docker inspect -f '{{.State.StartedAt}}' db;"
    f" stat -c '%U %G %a' {EXPORT}"
)
# In the place of the kernel's server, which containers lack: listens, has one client, and is a unit of that name.
NFS = (
    "import socket, time; server = socket.create_server(('', 2049));"
    " near = socket.create_connection(('127.0.0.1', 2049)); held = server.accept(); time.sleep(900)"
)
UNIT = "[Service]\\nExecStart=/usr/bin/python3 /srv/nfs.py\\n[Install]\\nWantedBy=multi-user.target\\n"
SERVE = (
    f"echo \"{NFS}\" > /srv/nfs.py; printf '{UNIT}' > /etc/systemd/system/nfs-server.service;"
    " systemctl --quiet daemon-reload; systemctl --quiet enable --now nfs-server;"
    " for n in $(seq 600); do ss -Htn state established 'sport = :2049' | grep -q . && exit 0; sleep 0.1; done; exit 1"
)
NO_SERVER = (
    "systemctl --quiet disable --now nfs-server; rm -f /srv/nfs.py /etc/systemd/system/nfs-server.service"
    " /etc/exports.d/ddp-play.exports /etc/nfs.conf.d/ddp-play.conf"
)


@pytest.fixture(scope="module")
def site(lab3: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inventory of a host with a history."""
    with lived_in(lab3, tmp_path_factory.mktemp("busy")) as path:
        yield path


def test_a_busy_host_is_left_alone_by_every_role(lab3: Lab, site: Path) -> None:
    ansible = str(Path(COMMAND).with_name("ansible-playbook"))
    words = [ansible, "-i", str(lab3.inventory), "--limit", HOST, REBOOT]
    with at_work(lab3, WORK, "docker rm --force db; systemctl stop rank"):
        before = lab3.on(HOST, UNTOUCHED, user="root")
        cells = provision(lab3, site, *ROLES)
        reboot = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert lab3.on(HOST, UNTOUCHED, user="root") == before
    assert {role: cell["status"] for role, cell in cells.items()} == dict.fromkeys(ROLES, "skipped"), cells
    for role, cell in cells.items():
        assert cell["reason"].startswith("pending: "), role
        assert BUSY.replace("; ", ", " if role == "python_env" else "; ") in cell["reason"], role
        assert f"{role}_touch_busy_hosts" in cell["reason"], role
    assert f"{EXPORT} to 10.0.0.0/8" in cells["nfs_server"]["reason"]
    assert f"in {ENVIRONMENT}" in cells["python_env"]["reason"]
    assert reboot.returncode != 0
    assert f"busy and is not rebooted: {BUSY}" in " ".join(reboot.stdout.split())


def test_a_busy_host_keeps_what_a_removal_would_take_from_its_ranks(lab3: Lab, site: Path) -> None:
    """The exit code is 0, and each role says that its removal is pending."""
    limits = "/etc/security/limits.d/60-ddp-rdma.conf"  # the trace of role rdma on this host
    start = f"{WORK}; echo '# Managed by ddp-play (role rdma)' > {limits}"
    words = (
        "-i",
        str(lab3.inventory),
        "-i",
        str(site),
        "--limit",
        HOST,
        "--tags",
        "rdma,docker_engine,base_os",
        "--json",
    )
    with at_work(lab3, start, f"docker rm --force db; systemctl stop rank; rm -f {limits}"):
        before = lab3.on(HOST, f"{UNTOUCHED}; cat {limits}", user="root")
        done = lab3.play("deprovision", *words, "--yes", "-e", json.dumps(VARIABLES), timeout_s=300)
        assert lab3.on(HOST, f"{UNTOUCHED}; cat {limits}", user="root") == before
    assert done.returncode == 0, done.stderr
    cells = {cell["role"]: cell for cell in json.loads(done.stdout)["cells"]}
    assert sorted(cells) == ["base_os", "docker_engine", "rdma"]
    for role, cell in cells.items():
        assert cell["status"] == "skipped", cell
        assert cell["reason"].startswith(f"pending: removal. The host is busy: {BUSY}"), cell
        assert f"{role}_touch_busy_hosts" in cell["reason"], role


def test_a_server_with_clients_is_not_restarted_and_its_directory_stays(lab3: Lab, site: Path) -> None:
    """The export is added; settings, which take a restart, wait."""
    state = f"systemctl show -p InvocationID nfs-server.service; stat -c '%U %G %a' {EXPORT}"
    with at_work(lab3, SERVE, NO_SERVER):
        before = lab3.on(HOST, state, user="root")
        assert "ops ops 2770" in before
        cell = provision(lab3, site, "nfs_server")["nfs_server"]
        after = lab3.on(HOST, state, user="root")
        files = lab3.on(HOST, "find /etc/exports.d /etc/nfs.conf.d -type f 2>/dev/null || true", user="root")
        kernel: dict[str, Any] = {"__nfs_server_threads_wanted": ""}  # the stand-in has no threads
        disrupted = provision(lab3, site, "nfs_server", options=("--disrupt",), **kernel)["nfs_server"]
        assert lab3.on(HOST, state, user="root") != before
    assert after == before
    assert cell["status"] == "changed", cell
    assert files == "/etc/exports.d/ddp-play.exports"
    assert "clients are connected: 127.0.0.1" in cell.get("pending", ""), cell
    assert (disrupted["status"], disrupted.get("pending", "")) == ("changed", ""), disrupted


@pytest.mark.long
def test_exports_in_use_are_not_taken_away(lab3: Lab, site: Path) -> None:
    """New ones are made at once; what the file has stays until no client is connected, or with --disrupt."""
    path, row = "/etc/exports.d/ddp-play.exports", f"{EXPORT} 10.0.0.0/8(rw)"
    mode: dict[str, Any] = {"__nfs_server_threads_wanted": "", "nfs_server_options": "rw"}
    before = [{"path": EXPORT, "clients": ["10.0.0.0/8", "192.168.0.0/16"]}]
    wanted = [
        {"path": EXPORT, "clients": ["10.0.0.0/8"], "options": "ro"},
        {"path": "/srv/more", "clients": ["10.0.0.0/8"]},
    ]
    with at_work(lab3, SERVE, f"{NO_SERVER}; rmdir /srv/more"):
        provision(lab3, site, "nfs_server", options=("--disrupt",), nfs_server_exports=before, **mode)
        mode["nfs_server_exports"] = wanted
        looks = [
            provision(lab3, site, "nfs_server", options=options, **mode)["nfs_server"]
            for options in (("--check",), (), ())
        ]
        verified = provision(lab3, site, "nfs_server", verb="verify", **mode)["nfs_server"]
        kept = lab3.on(HOST, f"grep -v '^#' {path}", user="root").splitlines()
        disrupted = provision(lab3, site, "nfs_server", options=("--disrupt",), **mode)["nfs_server"]
        left = lab3.on(HOST, f"grep -v '^#' {path}", user="root").splitlines()
    assert set(kept) == {row, f"{EXPORT} 192.168.0.0/16(rw)", "/srv/more 10.0.0.0/8(rw)"}
    says = f"exports to take away or to change: {EXPORT} to 10.0.0.0/8 (now rw), {EXPORT} to 192.168.0.0/16"
    for cell in looks:
        assert f"{says}; clients are connected: 127.0.0.1" in cell.get("pending", ""), cell
    assert [cell["num_changed"] > 0 for cell in looks] == [True, True, False], looks
    assert (verified["status"], says in verified["message"]) == ("failed", True), verified
    assert (disrupted["status"], disrupted.get("pending", "")) == ("changed", ""), disrupted
    assert left == [f"{EXPORT} 10.0.0.0/8(ro)", "/srv/more 10.0.0.0/8(rw)"]


@contextmanager
def reboot(lab: Lab, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`ddp-play reboot` in the background; interrupted at the end of the block, so that nothing is rebooted later."""
    argv = [COMMAND, "reboot", "--yes", *words]
    child = subprocess.Popen(argv, env=lab.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)


def test_a_host_whose_reboot_gives_up_takes_runs_again(lab3: Lab, tmp_path: Path) -> None:
    """Somebody's container keeps it busy until then."""
    where = ("-i", str(lab3.inventory), "--limit", HOST)
    command = job(tmp_path, {"image": "", "runtime": "process", "command": ["true"]})
    with at_work(lab3, DATABASE, "docker rm --force db"), reboot(lab3, "--wait", "20s", *where) as child:
        wait_until(lambda: drained(lab3), timeout_s=60, what="the mark is there")
        _, shown = child.communicate(timeout=120)
        assert not drained(lab3)
    assert (child.returncode, "1 container running: db" in shown) == (1, True), shown
    assert f"{HOST}: waiting: 1 container running: db" in shown, "who is waited for"
    taken = lab3.play("run", command, *where)
    assert taken.returncode == 0, taken.stderr


def test_an_interrupted_wait_is_undone_by_open(lab3: Lab, tmp_path: Path) -> None:
    where = ("-i", str(lab3.inventory), "--limit", HOST)
    command = job(tmp_path, {"image": "", "runtime": "process", "command": ["true"]})
    with at_work(lab3, DATABASE, "docker rm --force db"):
        with reboot(lab3, "--wait", "1h", *where):
            wait_until(lambda: drained(lab3), timeout_s=60, what="the mark is there")
        refused = lab3.play("run", command, *where)
        listed = lab3.play("reboot", "--check", *where)
        opened = lab3.play("reboot", "--open", *where)
        taken = lab3.play("run", command, *where)
    assert (refused.returncode, opened.returncode, taken.returncode) == (75, 0, 0), (refused, opened, taken)
    assert "the host takes no new runs: reboot by " in refused.stderr
    assert "the host is busy: 1 container running: db" in listed.stdout, listed
    assert not drained(lab3)


@pytest.mark.parametrize(("name", "busy"), [("ddp-dcgm-exporter", False), ("dcgm-exporter", True)])
def test_the_exporter_of_role_monitoring_keeps_no_reboot_waiting(lab3: Lab, name: str, *, busy: bool) -> None:
    """A real container with a file open that looks like a GPU; the same in another container counts."""
    holds = "sh -c 'exec sleep 900 3</dev/nvidia9'"
    start = f"touch /dev/nvidia9; docker run --detach --name {name} --volume /dev/nvidia9:/dev/nvidia9 {SLIM} {holds}"
    with at_work(lab3, start, f"docker rm --force {name}; rm /dev/nvidia9"):
        listed = lab3.play("reboot", "--check", "-i", str(lab3.inventory), "--limit", HOST)
    assert listed.returncode == 0, listed.stderr
    assert ("processes use a GPU: sleep (pid " in listed.stdout) == busy, listed.stdout
    assert ("the host is busy" in listed.stdout) == busy, listed.stdout


def drained(lab: Lab) -> bool:
    return lab.on(HOST, f"test -e {MARK} && echo there || true") == "there"
