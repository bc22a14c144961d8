"""Files of passwords: only theirs, for one user, until the end."""

from __future__ import annotations

from pathlib import Path

from ddp_play.ansible.password_files import password_files


def test_each_password_has_a_file_until_the_end() -> None:
    with password_files(connection="one", become="", vault="two") as options:
        files = [Path(path) for path in options[1::2]]
        assert options[::2] == ["--connection-password-file", "--vault-password-file"]
        assert [path.read_text() for path in files] == ["one\n", "two\n"]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert not any(path.parent.exists() for path in files)


def test_no_passwords_no_files() -> None:
    with password_files(connection="", become="", vault="") as options:
        assert options == []
