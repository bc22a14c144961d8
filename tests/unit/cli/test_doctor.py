"""Findings as `ddp-play doctor` prints them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ddp_play.checks.finding import Finding, Status
from ddp_play.cli import console
from ddp_play.cli.doctor import show, without_ssh
from ddp_play.cli.main import app
from ddp_play.provisioning.inventory import Group, Inventory

COMMAND = "export ANSIBLE_SSH_CONTROL_PATH_DIR=/a/directory/with/a/short/path/of/yours"
FINDINGS = (
    Finding("locale", Status.FAIL, "encoding of a long name " * 4, "Ansible refuses to start", COMMAND),
    Finding("ssh client", Status.OK, "OpenSSH_9.2p1"),
)


def test_failures_come_last_with_reason_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    show(FINDINGS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok           ssh client         OpenSSH_9.2p1"
    assert lines[1].startswith("FAIL         locale             encoding")
    assert lines[2:] == ["    Ansible refuses to start", f"    -> {COMMAND}", "1 fail, 1 ok"]


def test_a_finding_about_hosts_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    show((Finding("engine", Status.OK, "28.2", where=("h1", "h2", "h3")),))
    assert capsys.readouterr().out.splitlines()[0] == "ok           engine             h[1-3]: 28.2"


def test_options_for_hosts_without_an_inventory_are_refused() -> None:
    done = CliRunner().invoke(app, ["doctor", "--limit", "h1"])
    assert done.exit_code == 64
    assert "give -i INVENTORY" in done.stderr


def test_a_narrow_terminal_breaks_texts_and_no_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        console, "out", console.SafeConsole(width=60, force_terminal=True, no_color=True, soft_wrap=True)
    )
    show(FINDINGS)
    lines = capsys.readouterr().out.splitlines()
    assert any(COMMAND in line for line in lines)
    assert all(len(line) <= 70 for line in lines if COMMAND not in line)


@pytest.mark.parametrize(("connections", "status"), [(("local",), "not checked"), (("local", "ssh"), "fail")])
def test_ssh_counts_only_where_a_host_is_reached_with_it(connections: tuple[str, ...], status: str) -> None:
    found = (Finding("ssh client", Status.FAIL, "not installed", "hosts", "apt-get install"), FINDINGS[0])
    hosts = {f"h{number}": {"ansible_connection": value} for number, value in enumerate(connections)}
    inventory = Inventory({"all": Group("all", tuple(hosts))}, hosts)
    ssh, other = without_ssh(found, lambda: inventory)
    assert (ssh.status, other) == (status, FINDINGS[0])
    assert bool(ssh.command) is (status == "fail")


def test_the_inventory_is_not_read_without_need() -> None:
    found = (Finding("ssh client", Status.OK, "OpenSSH"),)
    assert without_ssh(found, lambda: pytest.fail("it was read")) == found
