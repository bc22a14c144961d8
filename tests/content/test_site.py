"""What `ddp-play init` writes passes our own checks and Ansible's, with a vault beside the settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.cli.main import app
from ddp_play.errors import UsageError
from ddp_play.images.recipe import CPU_TAG, REPOSITORY
from ddp_play.provisioning.inventory_check import check_inventory
from ddp_play.provisioning.site_scaffold import RankRuntime, Site, SiteHost, parse_hosts, site_commands, write_site
from tests.content.doc_blocks import blocks_of
from tests.schemas import check as check_schema

ROOT = Path(__file__).resolve().parents[2]


HOSTS = (SiteHost("gpu01", "10.2.3.4"), SiteHost("gpu02", "10.2.9.4"))
FLAVOURS = [
    Site(),
    Site(HOSTS, user="ops", shared_dir="/data"),
    Site(HOSTS, runtime=RankRuntime.PROCESS),
    Site(HOSTS, runtime=RankRuntime.PROCESS, shared_dir="/data"),
    Site(HOSTS, login=(("ansible_port", "2222"),), cpu=True),
    Site(HOSTS, cpu=True, of_lab=True, has_engine=True),
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_site(tmp_path / "site", Site())
    return tmp_path / "site"


def check(site: Path) -> list[str]:
    request = PlaybookRequest("", (str(site / "inventory"),), str(site))
    return [str(row) for row in check_inventory(request, Passwords()).findings]


@pytest.mark.parametrize("wanted", FLAVOURS, ids=str)
def test_the_inventory_has_nothing_to_correct(wanted: Site, tmp_path: Path) -> None:
    write_site(tmp_path / "site", wanted)
    # A directory that the hosts have already is mounted by nobody of the inventory, which is no error.
    notes = ["nothing in this inventory mounts /data"] if wanted.shared_dir else []
    found = check(tmp_path / "site")
    assert [row.startswith("note: ") and note in row for row, note in zip(found, notes, strict=True)] == [True] * len(
        notes
    )


def test_settings_of_the_command_line_are_in_the_files(tmp_path: Path) -> None:
    write_site(tmp_path / "site", FLAVOURS[3])
    program = Path(sys.executable).parent / "ansible-inventory"
    command = [str(program), "-i", "inventory", "--list"]
    done = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["without_docker"] == {"children": ["ranks", "spares"]}
    gpu01 = found["_meta"]["hostvars"]["gpu01"]
    assert gpu01["ansible_host"] == "10.2.3.4"
    assert gpu01["cluster_subnets"] == ["10.2.3.0/24", "10.2.9.0/24"]
    assert (gpu01["ddp_shared_dir"], gpu01["ddp_python"]) == ("/data", "/data/python/bin/python")


ODD = Site(
    (SiteHost("01", "10.0.0.1"), SiteHost("no", "10.0.0.2")), user="x: y", shared_dir="/srv/a b #c", has_slurm=True,
    runtime=RankRuntime.PROCESS,
)  # fmt: skip


def test_names_that_yaml_would_read_as_something_else(tmp_path: Path) -> None:
    write_site(tmp_path / "site", ODD)
    assert [row for row in check(tmp_path / "site") if not row.startswith("note: ")] == []
    program = Path(sys.executable).parent / "ansible-inventory"
    command = [str(program), "-i", "inventory", "--list"]
    done = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=True)
    variables = json.loads(done.stdout)["_meta"]["hostvars"]
    assert sorted(variables) == ["01", "no"]
    names = ("ansible_user", "ddp_shared_dir", "python_env_path", "ddp_python")
    shared = ("/srv/a b #c", "/srv/a b #c/python", "/srv/a b #c/python/bin/python")
    assert tuple(variables["no"][name] for name in names) == ("x: y", *shared)


@pytest.mark.parametrize("wanted", FLAVOURS, ids=str)
def test_the_job_fits_the_flavour(wanted: Site, tmp_path: Path) -> None:
    write_site(tmp_path / "site", wanted)
    text = (tmp_path / "site/train.yml").read_text()
    image = CPU_TAG if wanted.cpu else REPOSITORY
    assert (f"        ddp_job_image: {image}\n" in text) is (wanted.runtime is RankRuntime.DOCKER)
    assert not list((tmp_path / "site").rglob("__pycache__"))


def test_hosts_of_a_slurm_lab_stay_in_its_groups(tmp_path: Path) -> None:
    write_site(tmp_path / "site", Site(HOSTS, of_lab=True, has_slurm=True))
    groups = yaml.safe_load((tmp_path / "site" / "inventory" / "hosts.yml").read_text())["all"]["children"]
    assert groups["slurm_controller"] == {"hosts": {HOSTS[0].name: {}}}
    assert groups["slurm_nodes"] == {"children": {"ranks": {}}}


@pytest.mark.parametrize(("of_lab", "source"), [(True, "distribution"), (False, "vendor")])
def test_hosts_of_a_lab_take_the_engine_of_their_distribution(of_lab: bool, source: str, tmp_path: Path) -> None:
    """Docker's own repository was written, which a lab without a way to it cannot be provisioned with."""
    write_site(tmp_path / "site", Site(HOSTS, of_lab=of_lab))
    settings = (tmp_path / "site/inventory/group_vars/ranks.yml").read_text()
    assert f"\ndocker_engine_source: {source}\n" in settings
    assert ("of a lab" in settings) is of_lab


@pytest.mark.parametrize(
    ("site", "verbs"),
    [
        (Site(HOSTS), ["inventory check", "provision", "image load", "run", "results"]),
        (Site(HOSTS, of_lab=True), ["inventory check", "provision", "image load", "run", "results"]),
        (
            Site(HOSTS, of_lab=True, has_engine=True, runtime=RankRuntime.PROCESS),
            ["inventory check", "provision", "run", "results"],
        ),
        (
            Site(HOSTS, of_lab=True, has_engine=True, cpu=True),
            ["inventory check", "image load", "run", "results", "provision"],
        ),
    ],
    ids=str,
)
def test_hosts_that_run_ranks_as_they_are_need_no_provision(site: Site, verbs: list[str]) -> None:
    commands = site_commands(site)
    lines = [" ".join(row.words) for row in commands]
    assert [line[: len(verb)] for line, verb in zip(lines, verbs, strict=True)] == verbs
    assert ("optional" in " ".join(row.purpose for row in commands)) is site.is_ready
    kind = "cpu" if site.cpu else "cuda"
    assert [f"--image {site.image} --build {kind}" in line for line in lines if "load" in line] == (
        [True] if site.runtime is RankRuntime.DOCKER else []
    )


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        ([], ()),
        (["gpu01=10.0.0.1", "gpu02"], (SiteHost("gpu01", "10.0.0.1"), SiteHost("gpu02", "gpu02"))),
    ],
)
def test_hosts_of_the_command_line(values: list[str], hosts: tuple[SiteHost, ...]) -> None:
    assert parse_hosts(values) == hosts


@pytest.mark.parametrize(
    "values",
    [["=10.0.0.1"], ["a="], ["a b=1"], ["a", "a=10.0.0.1"], ["a: {}"], ["rack/a=h"], [".."], ["a[1:2]"], ["a=-x"]],
)
def test_wrong_hosts_are_refused(values: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_hosts(values)


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
    assert "cluster_subnets" in done.stdout


@pytest.mark.parametrize("words", [[], ["--runtime", "process"], ["--cpu", "--host", "a=10.0.0.1"]])
def test_the_readme_names_the_commands_that_are_printed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DDP_PLAY_HOME")  # with it, the printed commands name it
    shown = CliRunner().invoke(app, ["init", "site", *words]).output.splitlines()
    printed = [line.strip() for line in shown if line.startswith("  ")]
    (block,) = list(blocks_of(tmp_path, (tmp_path / "site/README.md").read_text()))
    assert printed[:2] == ["# the commands below run in the site's directory", "cd site"]
    assert block.body.splitlines() == printed[2:]
    assert len(printed) > 8
    assert "DIR" not in (tmp_path / "site/inventory/hosts.yml").read_text()


def test_the_answer_fits_its_schema(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "site"), "--json"])
    answer = json.loads(done.stdout)
    check_schema("init", answer)
    assert all((tmp_path / "site" / name).is_file() for name in answer["files"])


def test_only_a_new_or_empty_directory(site: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        write_site(site, Site())
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        write_site(tmp_path / "file", Site())
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no absolute path"):
        write_site(tmp_path / "empty", Site(shared_dir="data"))
    assert write_site(tmp_path / "empty", Site())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["deprovision", "-i", "inventory"], 64, "--limit was not given"),
        (["deprovision", "-i", "inventory", "--limit", "node1"], 64, "--yes does it"),
        (["provision", "-i", "nowhere"], 64, "no inventory nowhere"),
        (["provision"], 64, "-i was not given"),
        (["provision", "-i", "inventory", "--tags", "docker"], 64, "no role docker"),
        (["provision", "-i", "inventory", "--limit", "nobody"], 64, "nobody"),
        (["inventory", "check", "-i", "inventory"], 0, "no errors: 2 hosts"),
        (["init", "."], 64, "is not empty"),
        (["init", "new", "--lab", "nobody"], 64, "there is no lab named nobody"),
        (["init", "new", "--lab", "nobody", "--host", "a"], 64, "--lab excludes --host and --user"),
        (["init", "new", "--lab", "nobody", "--user", "bob"], 64, "--lab excludes --host and --user"),
        (["init", "new", "--user", ""], 64, "--user is empty"),
        (["init", "new", "--user", "{{ x }}"], 64, "has a template or control characters"),
        (["init", "--", "-x"], 0, "cd ./-x\n"),
        (["init", "a b"], 0, "cd 'a b'\n"),
    ],
)
def test_refusals(site: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str) -> None:
    monkeypatch.chdir(site)
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, said in done.output) == (code, True), done.output
