"""Ansible's settings for many hosts, and who may override them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.ansible.default_settings import FORKS, default_settings


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
