"""What makes a kept inventory or a started Ansible useless for a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ansible
import pytest
import yaml

from ddp_play.ansible.inventory_signature import (
    brings_plugins,
    configuration_stamp,
    is_static,
    relevant,
    signature,
    sources_of,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("a: 1\n")
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    return tmp_path


def new_host_vars(site: Path) -> None:
    (site / "host_vars" / "one").mkdir(parents=True)
    (site / "host_vars" / "one" / "extra.yml").write_text("b: 2\n")


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (lambda _site: None, False),
        (lambda site: (site / "README").write_text("not of the inventory"), False),
        (lambda site: (site / "hosts.yml").write_text("all: {}\n "), True),
        (lambda site: (site / "group_vars" / "all.yml").write_text("a: 12\n"), True),
        (lambda site: (site / "group_vars" / "all.yml").unlink(), True),
        (new_host_vars, True),
    ],
)
def test_a_change_of_the_inventory_is_seen(site: Path, change: Callable[[Path], object], changes: bool) -> None:
    sources = [str(site / "hosts.yml"), "h1,h2"]
    before = signature(sources)
    change(site)
    assert (signature(sources) != before) is changes


def test_a_directory_is_watched_as_a_whole(site: Path) -> None:
    before = signature([str(site)])
    (site / "more.ini").write_text("[ranks]\n")
    assert signature([str(site)]) != before


def test_too_many_files_are_not_watched(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.ansible.inventory_signature.MOST_FILES", 1)
    assert signature([str(site)]) is None


def test_scripts_and_plugins_are_not_static(site: Path) -> None:
    assert is_static([str(site), "h1,"])
    assert not is_static([])
    (site / "cloud.yml").write_text("---\nplugin: amazon.aws.aws_ec2\n")
    assert not is_static([str(site)])
    (site / "cloud.yml").unlink()
    (site / "list.py").write_text("#!/bin/sh\n")
    (site / "list.py").chmod(0o700)
    assert not is_static([str(site)])


def test_a_static_inventory_does_not_depend_on_the_jobs_variables() -> None:
    environment = {"LR": "0.1", "ANSIBLE_TIMEOUT": "5", "AWX_ISOLATED_DATA_DIR": "/run", "SSH_TTY": "/dev/pts/1"}
    assert relevant(environment, static=True) == {"ANSIBLE_TIMEOUT": "5"}
    assert relevant(environment, static=False) == {"ANSIBLE_TIMEOUT": "5", "LR": "0.1"}


def test_every_variable_that_ansible_reads_at_import_counts() -> None:
    found = yaml.safe_load((Path(ansible.__file__).parent / "config" / "base.yml").read_text())
    names = {row["name"] for setting in found.values() for row in setting.get("env") or ()}
    assert len(names) > 150
    per_run = names - set(relevant(dict.fromkeys(names, "x"), static=True))
    assert per_run == {"ANSIBLE_CACHE_PLUGIN_CONNECTION"}


def test_the_inventories_of_a_command_line() -> None:
    assert sources_of(["ansible-playbook", "-i", "/a", "-i", "h1,", "--limit", "x", "p.yml"]) == ["/a", "h1,"]
    assert sources_of(["ansible-playbook", "p.yml"]) == []


def test_a_changed_configuration_is_seen(tmp_path: Path) -> None:
    before = configuration_stamp({}, str(tmp_path))
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    assert configuration_stamp({}, str(tmp_path)) != before


@pytest.mark.parametrize("named", ["conf/ansible.cfg", "conf", "~/conf/ansible.cfg"])
def test_the_configuration_is_that_of_the_caller(named: str, tmp_path: Path) -> None:
    """Its path may be relative to the caller's directory, in the caller's home, or that of a directory."""
    environment = {"ANSIBLE_CONFIG": named, "HOME": str(tmp_path)}
    (tmp_path / "conf").mkdir()
    before = configuration_stamp(environment, str(tmp_path))
    (tmp_path / "conf" / "ansible.cfg").write_text("[defaults]\n")
    assert configuration_stamp(environment, str(tmp_path)) != before


def test_plugins_next_to_a_playbook_are_seen(tmp_path: Path) -> None:
    playbook = tmp_path / "train.yml"
    argv = ["ansible-playbook", "-i", "/inventory", str(playbook)]
    assert not brings_plugins(argv)
    (tmp_path / "connection_plugins").mkdir()
    assert brings_plugins(argv)
