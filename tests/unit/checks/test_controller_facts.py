"""Facts of this machine, with real directories, files and environments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddp_play.checks.controller_facts import _debian, _exposed, _locale_problem, _packages, _private_keys, look_at


def test_a_directory_is_tried_and_a_missing_one_is_not_created(tmp_path: Path) -> None:
    found = look_at(tmp_path)
    assert (found.exists, found.problem, found.own) == (True, "", True)
    missing = look_at(tmp_path / "a" / "b")
    assert (missing.exists, missing.problem) == (False, "")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert "irectory" in look_at(file).problem
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        assert look_at(tmp_path).problem == "Permission denied"
        tmp_path.chmod(0o700)


def test_keys_with_their_modes(tmp_path: Path) -> None:
    for name, mode in (("id_rsa", 0o644), ("id_rsa.pub", 0o644), ("config", 0o600)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    assert _private_keys(tmp_path) == ((str(tmp_path / "id_rsa"), 0o644),)
    assert _private_keys(tmp_path / "none") == ()


def test_a_configuration_that_others_may_replace(tmp_path: Path) -> None:
    config = tmp_path / "ansible.cfg"
    config.touch()
    assert _exposed(str(config)) == ""
    tmp_path.chmod(0o777)
    assert _exposed(str(config)) == str(config)


def test_a_locale_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    assert "LC_ALL=xx_XX.UTF-8" in _locale_problem()
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert _locale_problem() == ""


def test_a_missing_debootstrap_is_named_also_without_an_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message, hint = _debian(asking=False)
    assert message == "debootstrap is not installed, so no Debian to build images on can be had"
    assert hint.startswith("apt-get install debootstrap")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "debootstrap").touch(mode=0o755)
    assert _debian(asking=False) == ("", "")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "debootstrap needs root" in _debian(asking=False)[0]
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert "no Docker engine answers" in _debian(asking=True)[0]


def test_required_packages_are_those_of_a_plain_installation() -> None:
    found = {row.name: row for row in _packages()}
    assert found["ansible-runner"].fits
    assert "pytest" not in found
