"""The key of a repository is installed only if its fingerprint is known; another key changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import repository_key

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import accepted, documented

KEY = b"""-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawRNrBYJKwYBBAHaRw8BAQdAVu1CD/vOxVbDg3ZgGv7Hw2oozMmwAEUZ7Vqi
E9+6eXa0FHNpdGVAZXhhbXBsZS5pbnZhbGlkiJAEExYIADgWIQTNS5bvhHOqN5y5
JmzcbxCtRP8mOgUCawRNrAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRDc
bxCtRP8mOos/AP937G59VrYCD2HRuJJANH/SAB26aZxlFS/sngTAdMAZKQEAsVuD
q20LKn2XGghoB6v/P12JOgV16rgujf6IL/8rvwM=
=0vnO
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "CD4B96EF8473AA379CB9266CDC6F10AD44FF263A"
OTHER = "9DC858229FC7DD38854AE2D88D81803C0EBFCD88"


class Gpg:
    """Keys of a throwaway keyring."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.chmod(0o700)

    def run(self, *arguments: str) -> bytes:
        options = ["--homedir", str(self.home), "--batch", "--yes", "--pinentry-mode", "loopback", "--passphrase", ""]
        return subprocess.run(["gpg", *options, *arguments], capture_output=True, check=True).stdout

    def make(self, name: str, kind: str = "ed25519") -> bytes:
        """The armoured public key of a new pair."""
        self.run("--quick-gen-key", name, kind, "sign", "never")
        return self.export(name)

    def export(self, *names: str) -> bytes:
        return self.run("--armor", "--export", *names)

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gpg").write_bytes(KEY)
    return tmp_path


def answer(folder: Path, *known: str, check: bool = False, url: str = "") -> dict[str, Any]:
    arguments = {
        "url": url or f"file://{folder}/gpg",
        "path": str(folder / "key.asc"),
        "fingerprints": list(known),
        "variable": "docker_engine_repo_key_fingerprints",
        "_ansible_check_mode": check,
    }
    return FORKER.answer(repository_key.__file__, arguments)


def test_the_argument_spec_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, repository_key) == documented(repository_key)


def test_a_known_key_is_installed_once(folder: Path) -> None:
    installed = folder / "key.asc"
    dry = answer(folder, FINGERPRINT, check=True)
    assert (dry["changed"], installed.exists()) == (True, False)
    first = answer(folder, OTHER, FINGERPRINT)
    assert (first["changed"], first["fingerprints"]) == (True, [FINGERPRINT])
    assert first["ddp_changes"] == [{"kind": "add", "what": f"file {installed}", "whose": "new"}]
    assert (installed.read_bytes(), installed.stat().st_mode & 0o777) == (KEY, 0o644)
    (folder / "gpg").unlink()
    assert answer(folder, FINGERPRINT)["changed"] is False


@pytest.mark.parametrize("check", [False, True])
def test_another_key_is_refused_with_both_fingerprints_the_file_and_the_variable(folder: Path, check: bool) -> None:
    before = sorted(folder.iterdir())
    refused = answer(folder, OTHER, check=check)
    assert refused["failed"]
    for word in (FINGERPRINT, OTHER, str(folder / "key.asc"), "docker_engine_repo_key_fingerprints", "file://"):
        assert word in refused["msg"]
    assert sorted(folder.iterdir()) == before


def test_a_key_that_is_no_longer_known_is_replaced(folder: Path) -> None:
    (folder / "key.asc").write_bytes(KEY.replace(b"site", b"SITE")[:60])
    replaced = answer(folder, FINGERPRINT)
    assert replaced["ddp_changes"] == [{"kind": "change", "what": f"file {folder / 'key.asc'}", "whose": "ours"}]
    assert (folder / "key.asc").read_bytes() == KEY


@pytest.mark.parametrize("mode", [None, 0o600], ids=["a new key", "a replaced key"])
def test_every_user_can_read_the_key_whatever_the_umask_and_the_old_mode(folder: Path, mode: int | None) -> None:
    """apt reads it as a user of its own."""
    installed = folder / "key.asc"
    if mode is not None:
        installed.write_bytes(b"old")
        installed.chmod(mode)
    before = os.umask(0o077)
    try:
        assert answer(folder, FINGERPRINT)["changed"]
    finally:
        os.umask(before)
    assert f"{installed.stat().st_mode & 0o777:o}" == "644"


def test_a_key_that_cannot_be_put_in_its_place_leaves_nothing(folder: Path) -> None:
    (folder / "key.asc" / "theirs").mkdir(parents=True)
    before = sorted(folder.rglob("*"))
    with pytest.raises(AssertionError, match="Could not replace"):
        answer(folder, FINGERPRINT)
    assert sorted(folder.rglob("*")) == before


def test_another_key_leaves_the_installed_one(folder: Path) -> None:
    (folder / "key.asc").write_bytes(b"old")
    assert answer(folder, OTHER)["failed"]
    assert (folder / "key.asc").read_bytes() == b"old"


@pytest.mark.skipif(not shutil.which("gpg"), reason="needs gpg")
def test_a_second_key_in_the_file_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    gpg = Gpg(tmp_path_factory.mktemp("k"))
    try:
        (folder / "gpg").write_bytes(KEY + gpg.make("second@example.invalid"))
    finally:
        gpg.stop()
    refused = answer(folder, FINGERPRINT)
    assert refused["failed"]
    assert FINGERPRINT not in refused["msg"].split("but the known")[0]


def test_what_is_no_key_is_refused(folder: Path) -> None:
    (folder / "gpg").write_text("<html>Sign in to the proxy</html>")
    refused = answer(folder, FINGERPRINT)
    assert "is not a key of a repository" in refused["msg"]
    assert not (folder / "key.asc").exists()


def test_a_key_that_cannot_be_fetched_names_its_address(folder: Path) -> None:
    missing = f"file://{folder}/none"
    failed = answer(folder, FINGERPRINT, url=missing)
    assert (failed["failed"], failed["url"]) == (True, missing)
