"""Ways to reach hosts over real SSH: inventories, ports, jump hosts, host keys, passwords and sudo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from .conftest import COMMAND, Lab
from .rank_jobs import job

WHERE = "import os, socket; print(os.environ['RANK'], os.environ['LOCAL_RANK'], socket.gethostname(), os.getuid())"


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
    assert f"ssh-keygen -f {known} -R '{addresses['h3']}'" in done.stderr
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
