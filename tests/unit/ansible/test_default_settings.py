"""Ansible's settings for many hosts, and who may override them."""

from __future__ import annotations

import configparser
import tempfile
from pathlib import Path

import pytest

from ddp_play.ansible.default_settings import FORKS, LONGEST_CONTROL_DIR, OWN_CONFIG, default_settings


def test_settings_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANSIBLE_FORKS", raising=False)
    monkeypatch.delenv("ANSIBLE_PIPELINING", raising=False)
    assert default_settings(str(tmp_path))["ANSIBLE_FORKS"] == str(FORKS)
    monkeypatch.setenv("ANSIBLE_FORKS", "3")
    found = default_settings(str(tmp_path))
    assert "ANSIBLE_FORKS" not in found
    assert found["ANSIBLE_PIPELINING"] == "True"


def test_only_the_user_switches_the_check_of_host_keys_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_settings(str(tmp_path))["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    (tmp_path / "ansible.cfg").write_text("[defaults]\nhost_key_checking = False\n")
    assert default_settings(str(tmp_path))["ANSIBLE_HOST_KEY_CHECKING"] == "False"


def test_settings_without_a_variable_come_from_a_file_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only where the user has no ansible.cfg: Ansible reads one file and does not merge."""
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cwd = tmp_path / "site"
    cwd.mkdir()
    if Path("/etc/ansible/ansible.cfg").exists():
        assert "ANSIBLE_CONFIG" not in default_settings(str(cwd))
        return
    assert default_settings(str(cwd))["ANSIBLE_CONFIG"] == str(OWN_CONFIG)
    parser = configparser.ConfigParser()
    parser.read_string(OWN_CONFIG.read_text())
    assert dict(parser["defaults"]) == {"internal_poll_interval": "0.01"}
    (cwd / "ansible.cfg").write_text("[defaults]\nforks = 3\n")
    assert "ANSIBLE_CONFIG" not in default_settings(str(cwd))
    (cwd / "ansible.cfg").unlink()
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "theirs.cfg"))
    assert "ANSIBLE_CONFIG" not in default_settings(str(cwd))


def long_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home directory whose path is too long for the control sockets of ssh."""
    home = tmp_path / ("h" * LONGEST_CONTROL_DIR)
    home.mkdir()
    for name in ("ANSIBLE_SSH_CONTROL_PATH_DIR", "ANSIBLE_HOME", "ANSIBLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_control_sockets_of_ssh_fit_whatever_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long_home(monkeypatch, tmp_path)
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        found = default_settings(str(tmp_path))["ANSIBLE_SSH_CONTROL_PATH_DIR"]
        assert found == f"{runtime}/ddp-play-ssh"
        assert len(found) <= LONGEST_CONTROL_DIR
        Path(runtime).chmod(0o777)  # others could put a socket of theirs there
        assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in default_settings(str(tmp_path))


def test_a_configured_directory_of_control_sockets_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = long_home(monkeypatch, tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run")
    (home / ".ansible.cfg").write_text("[ssh_connection]\ncontrol_path_dir = /srv/cp\n")
    assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in default_settings(str(tmp_path))
    (home / ".ansible.cfg").unlink()
    monkeypatch.setenv("ANSIBLE_SSH_CONTROL_PATH_DIR", "/srv/cp")
    assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in default_settings(str(tmp_path))


def test_a_short_home_keeps_its_control_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long_home(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", "/home/kim")
    assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in default_settings(str(tmp_path))
