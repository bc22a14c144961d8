"""What `ddp-play init` writes passes our own checks and Ansible's, with a vault beside the settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.cli.main import app
from ddp_play.errors import UsageError
from ddp_play.provisioning.inventory_check import check_inventory
from ddp_play.provisioning.site_scaffold import write_site

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_site(tmp_path / "site")
    return tmp_path / "site"


def check(site: Path) -> list[str]:
    request = PlaybookRequest("", (str(site / "inventory"),), str(site))
    return [str(row) for row in check_inventory(request, Passwords()).findings]


def test_the_inventory_has_nothing_to_correct(site: Path) -> None:
    assert check(site) == []


def test_the_repositories_example_has_nothing_to_correct() -> None:
    request = PlaybookRequest("", (str(ROOT / "inventory" / "example"),), str(ROOT))
    assert check_inventory(request, Passwords()).findings == ()


def test_slips_are_found_in_what_it_wrote(site: Path) -> None:
    settings = site / "inventory/group_vars/all/main.yml"
    settings.write_text(settings.read_text().replace("base_os_firewall: false", "base_os_firewal: perhaps"))
    shutil.copy(site / "inventory/group_vars/ranks.yml", site / "inventory/group_vars/rank.yml")
    found = "\n".join(check(site))
    assert "did you mean base_os_firewall?" in found
    assert "group_vars/all/main.yml:" in found
    assert "there is no group rank" in found


def test_the_playbook_parses(site: Path) -> None:
    command = [sys.executable, "-m", "ansible", "playbook", "--syntax-check", "-i", "inventory", "train.yml"]
    done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_vault_example_is_found_once_it_is_copied(site: Path) -> None:
    folder = site / "inventory/group_vars/all"
    shutil.copy(folder / "vault.yml.example", folder / "vault.yml")
    program = Path(sys.executable).parent / "ansible-inventory"
    command = [str(program), "-i", "inventory", "--host", "node1"]
    done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=True)
    assert "vault_hf_token" in done.stdout
    assert "cluster_shared_dir" in done.stdout


def test_the_readme_names_the_next_commands_in_order(site: Path) -> None:
    text = (site / "README.md").read_text()
    commands = ["inventory check", "provision", "run train.yml"]
    assert [f"ddp-play {words} -i inventory" in text for words in commands] == [True] * 3
    assert "DIR" not in (site / "inventory/hosts.yml").read_text()


def test_only_a_new_or_empty_directory(site: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        write_site(site)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_site(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert write_site(tmp_path / "empty")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["deprovision", "-i", "inventory"], 64, "--limit was not given"),
        (["deprovision", "-i", "inventory", "--limit", "node1"], 64, "repeat it with --yes"),
        (["provision", "-i", "nowhere"], 64, "no inventory nowhere"),
        (["provision"], 64, "-i was not given"),
        (["provision", "-i", "inventory", "--tags", "docker"], 64, "no role docker"),
        (["provision", "-i", "inventory", "--limit", "nobody"], 64, "nobody"),
        (["inventory", "check", "-i", "inventory"], 0, "no errors: 4 hosts"),
        (["init", "."], 64, "is not empty"),
    ],
)
def test_refusals(site: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str) -> None:
    monkeypatch.chdir(site)
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, said in done.output) == (code, True), done.output
