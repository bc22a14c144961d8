"""The main job on three real hosts with 2, 1 and 1 slots, in rank containers, over real SSH."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from ddp_play.planning.plan_document import ranks_by_host
from tests.waiting import wait_until

from .conftest import COMMAND, SLIM, Lab

SHARED = "/srv/ddp-play-shared"
PYTHON = f"{SHARED}/python"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def torch_on_hosts(lab3: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """torch for the hosts' Python, once a lab, on the directory all hosts share: the way big sites do it."""
    if lab3.on("h1", f"ls {PYTHON}.complete 2>/dev/null; true"):
        return lab3
    target = tmp_path_factory.mktemp("python")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    install += ["--target", str(target), "--python-version", "3.11", "--only-binary=:all:"]
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), "torch", "numpy"], check=True, timeout=600)
    pack_command = ["tar", "-C", str(target), "--exclude=torch/include", "--exclude=torch/test"]
    pack_command += ["--mode=a+rX", "-cf", "-", "."]
    unpack = ["docker", "exec", "-i", f"ddp-play-{lab3.name}-h1", "sh", "-c"]
    script = f"mkdir -p {PYTHON} && tar -C {PYTHON} -xf - && touch {PYTHON}.complete"
    with subprocess.Popen(pack_command, stdout=subprocess.PIPE) as pack:
        subprocess.run([*unpack, script], stdin=pack.stdout, check=True, timeout=300)
    assert pack.returncode == 0
    return lab3


@pytest.fixture
def clean_hosts(lab3: Lab) -> Iterator[None]:
    """Whatever the test did, nothing of ours may be left on any host."""
    yield
    places = f"/var/lib/ddp-play/runs /home/ops/.local/state/ddp-play/host/runs {SHARED}/.ddp-play /dev/shm"
    script = (
        "docker ps -aq --filter label=ddp-play.run; pgrep -f 'guard-[0-9a-f]+[.]pyz'; "
        f"sudo find {places} -mindepth 1 2>/dev/null; true"
    )
    wait_until(lambda: all(lab3.on(host, script) == "" for host in ("h1", "h2", "h3")), timeout_s=15)


def job(tmp_path: Path, variables: dict[str, Any], name: str = "job.yml") -> str:
    """A playbook with one job over the slim image and the shared torch."""
    wanted = {"image": SLIM, "env": {"PYTHONPATH": PYTHON, "OMP_NUM_THREADS": "1"}, **variables}
    play = {
        "hosts": "ranks",
        "gather_facts": False,
        "roles": [{"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{k}": v for k, v in wanted.items()}}],
    }
    path = tmp_path / name
    path.write_text(json.dumps([play]))
    return str(path)


def train(tmp_path: Path, **variables: Any) -> str:
    """The reference trainer, a few epochs of it."""
    wanted = {
        "source": str(ROOT),
        "source_include": ["trainer"],
        "command": ["python3", "-m", "trainer", "train", "--epochs", "3", "--init-method", "{init_method}"],
        **variables,
    }
    return job(tmp_path, wanted)


def fresh(name: str) -> str:
    """A run name that a kept lab has not seen yet."""
    return f"{name}-{secrets.token_hex(3)}"


def document(lab: Lab, run: str) -> dict[str, Any]:
    """A run's run.json."""
    value: dict[str, Any] = json.loads((lab.home / "runs" / run / "run.json").read_text())
    return value


WHERE = "import os, socket; print(os.environ['RANK'], os.environ['LOCAL_RANK'], socket.gethostname(), os.getuid())"


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("method", ["env", "tcp", "file"])
def test_training_over_three_hosts(torch_on_hosts: Lab, tmp_path: Path, method: str) -> None:
    lab = torch_on_hosts
    name = fresh(f"train-{method}")
    done = lab.play("run", train(tmp_path, init_method=method), "-i", str(lab.inventory), "--name", name)
    assert done.returncode == 0, done.stderr
    results = [
        json.loads((lab.home / "runs" / name / "results" / f"rank-{rank}.json").read_text()) for rank in range(4)
    ]
    assert {row["world_size"] for row in results} == {4}
    assert len({row["parameters_sha256"] for row in results}) == 1
    plan = json.loads((lab.home / "runs" / name / "plan.json").read_text())
    assert list(map(list, ranks_by_host(plan).values())) == [[0, 1], [2], [3]]
    assert plan["init_url"].split(":")[0] == method


@pytest.mark.usefixtures("clean_hosts")
def test_inventories_of_every_kind(lab3: Lab, tmp_path: Path) -> None:
    """INI with aliases, group_vars beside it, a vaulted variable, root, become, --limit: the same job each time."""
    addresses = {host["name"]: host["addresses"][0] for host in lab3.status()["hosts"]}
    key = f"ansible_ssh_private_key_file={lab3.inventory.parent.parent / 'id_ed25519'}"
    known = f"-o UserKnownHostsFile={lab3.inventory.parent.parent / 'known_hosts'} -o IdentitiesOnly=yes"
    site = tmp_path / "site"
    (site / "group_vars").mkdir(parents=True)
    lines = [f"gpu{n} ansible_host={addresses[f'h{n}']} {key}" for n in (1, 2, 3)]
    (site / "hosts.ini").write_text("[ranks]\n" + "\n".join(lines) + "\n")
    (tmp_path / "pw").write_text("vault password\n")
    encrypt = [str(Path(sys.executable).with_name("ansible-vault")), "encrypt_string", "--vault-password-file"]
    vaulted = subprocess.run(
        [*encrypt, str(tmp_path / "pw"), "hunter2-vaulted", "--name", "secret_value"],
        capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)},
    ).stdout  # fmt: skip
    (site / "group_vars" / "ranks.yml").write_text(
        f"---\nansible_user: ops\nansible_ssh_common_args: {known}\nddp_slots: 1\n{vaulted}"
    )
    lengths = "; print(len(open(os.environ['TOKEN_FILE']).read()), len(os.environ['HEADER']))"
    path = job(
        tmp_path,
        {"command": ["python3", "-c", WHERE + lengths],
         "secrets": {"TOKEN": "{{ secret_value }}"}, "env": {"HEADER": "Bearer {{ secret_value }}"}},
    )  # fmt: skip
    vault = ["--vault-password-file", str(tmp_path / "pw")]
    done = lab3.play("run", path, "-i", str(site / "hosts.ini"), *vault, "--ranks", "all")
    assert done.returncode == 0, done.stderr
    assert "gpu3:2: 2 0 h3 1000" in done.stdout
    assert "gpu1:0: 15 22" in done.stdout
    assert "hunter2" not in "".join(
        p.read_text(errors="replace") for p in (lab3.home / "runs").rglob("*") if p.is_file()
    )
    done = lab3.play("run", path, "-i", str(site / "hosts.ini"), *vault, "--ranks", "all", "-b", "--limit", "gpu2")
    assert done.returncode == 0, done.stderr
    assert "gpu2:0: 0 0 h2 1000" in done.stdout  # become, and the ranks still run as who connected
    done = lab3.play("run", path, "-i", str(site / "hosts.ini"), *vault, "-u", "root", "-e", "ansible_user=root")
    assert done.returncode == 0, done.stderr
    assert "gpu1:0: 0 0 h1 0" in done.stdout


@pytest.mark.usefixtures("clean_hosts")
def test_another_port_and_a_jump_host(lab3: Lab, tmp_path: Path) -> None:
    addresses = {host["name"]: host["addresses"][0] for host in lab3.status()["hosts"]}
    key, known = (str(lab3.inventory.parent.parent / name) for name in ("id_ed25519", "known_hosts"))
    lab3.on("h3", "sudo sh -c 'mkdir -p /run/sshd && /usr/sbin/sshd -p 2222 -o PidFile=/run/sshd-2222.pid'")
    try:
        base = f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=no -o IdentitiesOnly=yes"
        jump = f"ssh -W %h:%p -i {key} {base} ops@{addresses['h1']}"
        inventory = tmp_path / "jump.yml"
        hosts = {
            "h2": {"ansible_host": addresses["h2"], "ansible_ssh_common_args": f'{base} -o ProxyCommand="{jump}"'},
            "h3": {"ansible_host": addresses["h3"], "ansible_port": 2222, "ansible_ssh_common_args": base},
        }
        common = {"ansible_user": "ops", "ansible_ssh_private_key_file": key}
        inventory.write_text(json.dumps({"ranks": {"hosts": hosts, "vars": common}}))
        path = job(tmp_path, {"command": ["python3", "-c", WHERE]})
        done = lab3.play("run", path, "-i", str(inventory), "--ranks", "all")
        assert done.returncode == 0, done.stderr
        assert "h2:0: 0 0 h2 1000" in done.stdout
        assert "h3:1: 1 0 h3 1000" in done.stdout
    finally:
        lab3.on("h3", "sudo kill $(cat /run/sshd-2222.pid)")
        Path(known).write_text(
            "".join(line for line in Path(known).read_text().splitlines(True) if ":2222" not in line)
        )


@pytest.mark.usefixtures("clean_hosts")
def test_a_host_that_is_down_at_start(lab3: Lab, tmp_path: Path) -> None:
    subprocess.run(["docker", "pause", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)
    try:
        path = job(tmp_path, {"command": ["true"]})
        quick = ["-e", "ansible_ssh_timeout=3"]
        done = lab3.play("run", path, "-i", str(lab3.inventory), *quick)
        assert done.returncode == 69
        assert "h3:" in done.stderr
        done = lab3.play("run", job(tmp_path, {"command": ["true"], "hosts": "2.."}), "-i", str(lab3.inventory), *quick)
        assert done.returncode == 0, done.stderr
        assert "left out h3" in done.stderr
    finally:
        subprocess.run(["docker", "unpause", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)


@pytest.mark.usefixtures("clean_hosts")
def test_detach_here_attach_there_and_plain_ansible(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("away")
    path = job(tmp_path, {"command": ["sh", "-c", "echo begun; sleep 8; echo ended"]})
    done = lab3.play("run", path, "-i", str(lab3.inventory), "-d", "--name", name)
    assert done.stdout.strip() == name
    elsewhere = subprocess.run(
        [COMMAND, "attach", name],
        cwd="/",
        env=lab3.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (lab3.home / "runs" / name / "logs" / "rank-3.log").read_text() == "begun\nended\n"
    plain = subprocess.run(
        [str(Path(COMMAND).with_name("ansible-playbook")), "-i", str(lab3.inventory), path],
        env=lab3.environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stdout


@pytest.mark.usefixtures("clean_hosts")
def test_first_failure_on_one_host_ends_all(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("seven")
    path = job(tmp_path, {"command": ["sh", "-c", "test $RANK = 3 && { sleep 2; echo why; exit 7; }; sleep 600"]})
    done = lab3.play("run", path, "-i", str(lab3.inventory), "--name", name)
    assert done.returncode == 7, done.stderr
    ended = document(lab3, name)
    assert (ended["verdict"]["rank"], ended["verdict"]["host"]) == (3, "h3")
    assert ended["verdict"]["tail"] == ["why"]
    failed = next(row["ended"] for row in ended["ranks"] if row["rank"] == 3)
    assert max(row["ended"] for row in ended["ranks"]) - failed < 5


@pytest.mark.usefixtures("clean_hosts")
def test_a_killed_controller_and_attach(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("orphan")
    path = job(tmp_path, {"command": ["sh", "-c", "for i in $(seq 40); do echo $RANK $i; sleep 0.4; done"]})
    lab3.play("run", path, "-i", str(lab3.inventory), "-d", "--name", name)
    log = lab3.home / "runs" / name / "logs" / "rank-3.log"
    wait_until(lambda: log.exists() and b"3 5\n" in log.read_bytes())
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"DDP_PLAY_HOME={lab3.home}".encode() in environment and int(entry.name) != os.getpid():
            os.kill(int(entry.name), signal.SIGKILL)
    done = lab3.play("attach", name)
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        text = (lab3.home / "runs" / name / "logs" / f"rank-{rank}.log").read_text()
        assert text == "".join(f"{rank} {i}\n" for i in range(1, 41))


@pytest.mark.usefixtures("clean_hosts")
def test_a_wrong_and_a_changed_host_key(lab3: Lab, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    addresses = {host["name"]: host["addresses"][0] for host in lab3.status()["hosts"]}
    lines = (lab3.inventory.parent.parent / "known_hosts").read_text().splitlines()
    other = next(line.split(maxsplit=1)[1] for line in lines if addresses["h1"] in line.split()[0])
    known.write_text(f"{addresses['h3']} {other}\n")  # h3 is known with h1's key
    args = f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o ControlPath=none"
    path = job(tmp_path, {"command": ["true"]})
    extra = ["-e", json.dumps({"ansible_ssh_common_args": args})]
    done = lab3.play("run", path, "-i", str(lab3.inventory), "--limit", "h3", *extra)
    assert done.returncode == 69, done.stderr
    assert "ssh-keygen -R" in done.stderr
    strange = tmp_path / "strange"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(strange)], check=True)
    extra = [
        "-e",
        json.dumps({"ansible_ssh_private_key_file": str(strange), "ansible_ssh_args": "-o ControlPath=none"}),
    ]
    done = lab3.play("run", path, "-i", str(lab3.inventory), "--limit", "h3", *extra)
    assert done.returncode == 69, done.stderr
    assert "Permission denied" in done.stderr
    assert "--private-key" in done.stderr


@pytest.mark.usefixtures("clean_hosts")
def test_sudo_that_wants_a_password(lab3: Lab, tmp_path: Path) -> None:
    lab3.on("h2", "sudo useradd -m -s /bin/bash pat && echo pat:pw-of-pat | sudo chpasswd && sudo usermod -aG sudo pat")
    lab3.on("h2", "sudo cp -r /home/ops/.ssh /home/pat/ && sudo chown -R pat:pat /home/pat/.ssh")
    try:
        path = job(tmp_path, {"command": ["python3", "-c", WHERE]})
        who = ["-i", str(lab3.inventory), "--limit", "h2", "-b", "-e", "ansible_user=pat"]
        done = lab3.play("run", path, *who)
        assert done.returncode == 69, done.stderr
        assert "-K" in done.stderr
        done = lab3.play("run", path, *who, "-e", "ansible_become_password=pw-of-pat")
        assert done.returncode == 64, done.stderr
        assert "-K" in done.stderr
        password = tmp_path / "password.yml"
        password.write_text("ansible_become_password: pw-of-pat\n")
        done = lab3.play("run", path, *who, "-e", f"@{password}")
        assert done.returncode == 0, done.stderr
        uid = lab3.on("h2", "id -u pat")
        assert f"h2:0: 0 0 h2 {uid}" in done.stdout
        newest = max((lab3.home / "runs").glob("*"), key=lambda run: run.stat().st_ctime)
        for part in newest.rglob("*"):
            if part.is_file():
                assert b"pw-of-pat" not in part.read_bytes(), part
    finally:
        lab3.on("h2", "sudo userdel -rf pat 2>/dev/null; true")


@pytest.mark.usefixtures("clean_hosts")
def test_passwords_are_asked_for_and_go_nowhere_else(lab3: Lab, tmp_path: Path) -> None:
    """-k and -K on a terminal: no key, and sudo that wants a password."""
    secret = "pw-typed-here"
    allow = "/etc/ssh/sshd_config.d/00-password.conf"  # the first word on it counts
    lab3.on("h2", f"sudo useradd -m -s /bin/bash kim && echo kim:{secret} | sudo chpasswd && sudo usermod -aG sudo kim")
    lab3.on("h2", f"echo PasswordAuthentication yes | sudo tee {allow} && sudo systemctl reload ssh")
    try:
        words = ["run", job(tmp_path, {"command": ["python3", "-c", WHERE]}), "-i", str(lab3.inventory)]
        words += ["--limit", "h2", "-k", "-K", "-b", "-e", "ansible_user=kim", "-e", "ansible_ssh_private_key_file="]
        child = pexpect.spawn(COMMAND, words, env=dict(lab3.environment), encoding="utf-8", timeout=90)
        for prompt in ("SSH password: ", "BECOME password: "):
            child.expect(prompt)
            child.sendline(secret)
        child.expect(f"h2:0: 0 0 h2 {lab3.on('h2', 'id -u kim')}")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        newest = max((lab3.home / "runs").glob("*"), key=lambda run: run.stat().st_ctime)
        for part in newest.rglob("*"):
            assert not (part.is_file() and secret.encode() in part.read_bytes()), part
    finally:
        lab3.on("h2", f"sudo rm -f {allow}; sudo systemctl reload ssh; true")
        lab3.on("h2", "sudo userdel -rf kim 2>/dev/null; true")
