"""Failures of an inventory, of the command line, and of the vault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.remedies.job_rows import suggested
from tests.remedies.rows import Row
from tests.remedies.scene import HERE

if TYPE_CHECKING:
    import re

    from tests.remedies.scene import Scene

AREA = "Inventory and command line"
VAULT_PASSWORD = "of the vault"


def plan_here(scene: Scene) -> list[str]:
    return ["plan", scene.job(), "-i", scene.inventory()]


def without_inventory(scene: Scene) -> list[str]:
    scene.inventory()
    return ["plan", scene.job()]


def misspelt_inventory(scene: Scene) -> list[str]:
    scene.inventory()
    return ["plan", scene.job(), "-i", "host.json"]


def misspelt_playbook(scene: Scene) -> list[str]:
    scene.job()
    return ["plan", "jobb.yml", "-i", scene.inventory()]


def broken_inventory(scene: Scene) -> list[str]:
    scene.play.write("hosts.yml", "ranks:\n  hosts:\n    localhost: {ansible_connection: local\n    h2:\n")
    return ["inventory", "check", "-i", "hosts.yml"]


def repair_the_line(scene: Scene, told: re.Match[str]) -> None:
    path = Path(told["FILE"])
    assert path == scene.cwd / "hosts.yml"
    path.write_text("ranks:\n  hosts:\n    localhost: {ansible_connection: local}\n", encoding="utf-8")


def misspelt_variable(scene: Scene) -> list[str]:
    return ["plan", scene.job(), "-i", scene.inventory(ddp_pyton="/usr/bin/python3")]


def variable_in_group_vars(scene: Scene) -> list[str]:
    scene.inventory()
    scene.play.write("group_vars/ranks.yml", "---\nddp_slotz: 2\n")
    return ["inventory", "check", "-i", "hosts.json"]


def no_such_limit(scene: Scene) -> list[str]:
    return ["plan", scene.job(), "-i", scene.inventory(), "--limit", "gpu9"]


def other_group(scene: Scene) -> list[str]:
    return ["plan", scene.job(), "-i", scene.inventory(group="rank")]


def vaulted(scene: Scene) -> list[str]:
    """A job whose secret is a vaulted value."""
    scene.play.write("password", VAULT_PASSWORD)
    program = Path(sys.executable).with_name("ansible-vault")
    words = [str(program), "encrypt_string", "--vault-password-file", "password", "hush", "--name", "site_key"]
    done = subprocess.run(words, cwd=scene.cwd, env=scene.play.env(), capture_output=True, text=True, check=True)
    scene.play.write("group_vars/ranks.yml", done.stdout)
    return ["plan", scene.job(secrets={"KEY": "{{ site_key }}"}), "-i", scene.inventory()]


def wrong_vault_password(scene: Scene) -> list[str]:
    scene.play.write("other", "another")
    return [*vaulted(scene), "--vault-password-file", "other"]


def with_vault_password(_scene: Scene) -> list[str]:
    return ["plan", "job.yml", "-i", "hosts.json", "--vault-password-file", "password"]


def secret_on_the_command_line(scene: Scene) -> list[str]:
    return ["plan", scene.job(), "-i", scene.inventory(), "-e", "ansible_password=hush"]


def secret_in_a_file(scene: Scene) -> list[str]:
    scene.play.write("secret.yml", "ansible_password: hush\n").chmod(0o600)
    return ["plan", "job.yml", "-i", "hosts.json", "-e", "@secret.yml"]


def role_in_phases(scene: Scene, tags: str) -> list[str]:
    return ["verify", "-i", scene.inventory(), "--tags", tags]


def wrong_type(scene: Scene) -> list[str]:
    scene.inventory()
    scene.play.write("group_vars/ranks.yml", "---\nbase_os_max_clock_offset_ms: soon\n")
    return ["inventory", "check", "-i", "hosts.json"]


def hosts_outside_the_firewall(scene: Scene) -> list[str]:
    hosts = {name: {**HERE, "ansible_host": f"10.9.0.{number}"} for number, name in enumerate(("h1", "h2"), 1)}
    scene.hosts(hosts)
    scene.play.write("group_vars/ranks.yml", "---\nbase_os_firewall_subnets: [10.0.0.0/24]\nbase_os_firewall: true\n")
    return ["inventory", "check", "-i", "hosts.json"]


ROWS = (
    Row(
        "no inventory",
        AREA,
        "no inventory: -i was not given",
        "give -i INVENTORY",
        without_inventory,
        again=lambda _: ["plan", "job.yml", "-i", "hosts.json"],
    ),
    Row(
        "misspelt inventory",
        AREA,
        "no inventory host.json",
        "did you mean FILE?",
        misspelt_inventory,
        again=lambda scene: ["plan", "job.yml", "-i", scene.notes["told"]["FILE"]],
    ),
    Row(
        "misspelt playbook",
        AREA,
        "no playbook jobb.yml",
        "did you mean FILE?",
        misspelt_playbook,
        again=lambda scene: ["plan", scene.notes["told"]["FILE"], "-i", "hosts.json"],
    ),
    Row(
        "broken YAML of an inventory",
        AREA,
        "YAML parsing failed",
        "correct FILE at line VALUE",
        broken_inventory,
        fix=repair_the_line,
    ),
    Row(
        "misspelt host variable",
        AREA,
        "unknown variable ddp_pyton; did you mean ddp_python?",
        "`ddp-play inventory check -i INVENTORY` names file and line",
        misspelt_variable,
        fix=lambda scene, _: scene.edit("hosts.json", "ddp_pyton", "ddp_python"),
    ),
    Row(
        "misspelt variable of a group",
        AREA,
        "group_vars/ranks.yml:2): unknown variable ddp_slotz",
        "did you mean VALUE?",
        variable_in_group_vars,
        fix=suggested("group_vars/ranks.yml", "ddp_slotz"),
    ),
    Row(
        "value of another type",
        AREA,
        "group_vars/ranks.yml:2): base_os_max_clock_offset_ms is ...soon",
        "but has to be a whole number",
        wrong_type,
        fix=lambda scene, _: scene.edit("group_vars/ranks.yml", "soon", "50"),
    ),
    Row(
        "limit without a host",
        AREA,
        "--limit: 'gpu9' is no host and no group of the inventory",
        "groups: ranks; hosts: localhost",
        no_such_limit,
        again=plan_here,
    ),
    Row(
        "no host in the group of the play",
        AREA,
        "no play with the role ddp.play.ddp_job matched a host",
        "`ansible-inventory --graph -i INVENTORY` shows the groups",
        other_group,
        again=plan_here,
    ),
    Row(
        "no host in any phase",
        AREA,
        "no host of the inventory is in any phase",
        "put them into group ranks",
        lambda scene: ["verify", "-i", scene.inventory(group="web"), "--tags", "nccl"],
        code_after=0,
        fix=lambda scene, _: scene.edit("hosts.json", '"web"', '"ranks"'),
    ),
    Row(
        "role that there is not",
        AREA,
        "no role nncl",
        "--tags takes ... nccl",
        lambda scene: role_in_phases(scene, "nncl"),
        again=lambda scene: role_in_phases(scene, "nccl"),
    ),
    Row(
        "vault password missing",
        AREA,
        "no vault secrets found",
        "--vault-password-file FILE",
        vaulted,
        again=with_vault_password,
    ),
    Row(
        "wrong vault password",
        AREA,
        "Decryption failed",
        "correct --vault-password-file",
        wrong_vault_password,
        again=with_vault_password,
    ),
    Row(
        "vault password file that is not there",
        AREA,
        "The vault password file ... was not found",
        "correct --vault-password-file",
        lambda scene: [*vaulted(scene), "--vault-password-file", "passwort"],
        again=with_vault_password,
    ),
    Row(
        "secret on the command line",
        AREA,
        "-e sets the secret ansible_password on the command line",
        "give -e @FILE",
        secret_on_the_command_line,
        again=secret_in_a_file,
    ),
    Row(
        "waiting time in words",
        AREA,
        "--wait-at-most: 'soon' is not a duration",
        "write seconds or 90s, 15m, 2h, 1d",
        lambda scene: ["run", scene.job(), "-i", scene.inventory(), "--wait-at-most", "soon"],
        again=lambda _: ["run", "job.yml", "-i", "hosts.json", "--wait-at-most", "90s"],
    ),
    Row(
        "misspelt option",
        AREA,
        "no such option: --limt",
        "...--limit",
        lambda scene: [*plan_here(scene), "--limt", "localhost"],
        again=lambda _: ["plan", "job.yml", "-i", "hosts.json", "--limit", "localhost"],
    ),
    Row(
        "misspelt verb",
        AREA,
        "no such command 'pln'",
        "Did you mean 'VALUE'?",
        lambda scene: ["pln", *plan_here(scene)[1:]],
        again=plan_here,
    ),
    Row(
        "deprovision without hosts",
        AREA,
        "no hosts: --limit was not given",
        "give --limit HOST",
        lambda scene: ["deprovision", "-i", scene.inventory()],
        not_applied="it would change this machine",
    ),
    Row(
        "directory of init with files",
        AREA,
        "site is not empty",
        "give a new or an empty directory",
        lambda scene: [str(scene.play.write("site/x", "")) and "init", "site"],
        again=lambda _: ["init", "site2"],
    ),
)
