"""The MUNGE key: written in one step for its user alone, the former one kept, nothing of it in an answer."""

from __future__ import annotations

import base64
import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import munge_key

from .stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path

KEY, OTHER = bytes(range(128)), b"x" * 64


@pytest.fixture(autouse=True)
def _munge_is_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    this = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(munge_key.pwd, "getpwnam", lambda _name: this)


def run(monkeypatch: pytest.MonkeyPatch, path: Path, *, check: bool = False, **options: Any) -> dict[str, Any]:
    stand_in = StandIn(path=str(path), **options)
    stand_in.check_mode = check
    return play(monkeypatch, munge_key, stand_in)


def text(key: bytes) -> str:
    return base64.encodebytes(key).decode()


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, munge_key) == documented(munge_key)


def test_a_new_key_is_for_its_user_alone_and_the_second_time_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "munge.key"
    first = run(monkeypatch, path, key=text(KEY))
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (KEY, 0o400)
    assert [row["whose"] for row in first["ddp_changes"]] == ["new"]
    assert run(monkeypatch, path, key=text(KEY))["changed"] is False
    path.chmod(0o600)
    assert run(monkeypatch, path, key=text(KEY))["changed"] is True
    assert path.stat().st_mode & 0o777 == 0o400


@pytest.mark.parametrize(("own", "whose", "kept"), [(False, "theirs", True), (True, "ours", False)])
def test_a_key_of_the_site_is_kept_and_returns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool, whose: str, kept: bool
) -> None:
    path = tmp_path / "munge.key"
    path.write_bytes(OTHER)
    path.chmod(0o600)
    checked = run(monkeypatch, path, key=text(KEY), own=own, check=True)
    assert (checked["changed"], path.read_bytes()) == (True, OTHER)
    done = run(monkeypatch, path, key=text(KEY), own=own)
    assert [row["whose"] for row in done["ddp_changes"]] == [whose]
    assert (tmp_path / "munge.key.ddp-play.orig").exists() is kept
    assert run(monkeypatch, path, state="restored")["changed"] is kept
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == ((OTHER, 0o600) if kept else (KEY, 0o400))


@pytest.mark.parametrize(
    ("key", "words"), [("not base64!", "not base64"), (text(b"short"), "5 bytes; munged takes 32 to 1024")]
)
def test_what_is_no_key_is_refused_without_its_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, words: str
) -> None:
    done = run(monkeypatch, tmp_path / "munge.key", key=key)
    assert done["failed"] is True
    assert words in done["msg"]
    assert key.strip() not in str(done)


def test_an_answer_has_nothing_of_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = run(monkeypatch, tmp_path / "munge.key", key=text(KEY))
    assert set(done) == {"failed", "changed", "ddp_changes"}
    assert text(KEY)[:20] not in str(done)
