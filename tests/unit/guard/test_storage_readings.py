"""Space, the write probe, and the tokens by which hosts see that a directory is shared."""

from __future__ import annotations

from pathlib import Path

from ddp_play.guard import state_directory
from ddp_play.guard import storage_readings as module


def test_space_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    found = module.space(str(tmp_path / "not" / "there"))
    assert found["size_mib"] >= found["free_mib"] > 0
    assert found["read_only"] is False


def test_a_file_can_be_written_and_is_gone_afterwards(tmp_path: Path) -> None:
    assert module.write_probe(str(tmp_path))["problem"] == ""
    assert list(tmp_path.iterdir()) == []
    assert module.write_probe("/proc")["problem"]


def test_tokens_are_seen_and_removed(tmp_path: Path) -> None:
    path = str(tmp_path)
    written = module.write_token(path, "w0rd", "h/1")
    assert (written["problem"], written["owner"]) == ("", written["user"])
    assert module.see_tokens(path, "w0rd", ["h/1"], 5.0)["seen"]["h/1"] is not None
    assert module.see_tokens(path, "other", ["h/1"], 0.0)["seen"] == {"h/1": None}
    assert module.see_tokens(path, "w0rd", ["h/1", "h2"], 0.0)["seen"]["h2"] is None
    assert module.write_token(path, "w0rd", "h/1")["problem"] == "File exists"
    assert module.remove_token(path, "w0rd", "h/1") == ""
    assert module.remove_token(path, "w0rd", "h/1") == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_name_with_another_content_is_no_token(tmp_path: Path) -> None:
    Path(module.token_path(str(tmp_path), "w0rd", "h1")).write_text("something else")
    assert module.see_tokens(str(tmp_path), "w0rd", ["h1"], 0.0)["seen"] == {"h1": None}
    assert module.write_token(str(tmp_path / "gone"), "w0rd", "h1")["problem"] == "No such file or directory"


def test_a_token_tells_what_is_mounted_there(tmp_path: Path) -> None:
    mount = state_directory.mount_of(str(tmp_path))
    written = module.write_token(str(tmp_path), "w0rd", "h1")
    assert (written["mount"], written["source"]) == (mount.kind, mount.source)
    refused = module.write_token("/proc", "w0rd", "h1")
    assert (bool(refused["problem"]), refused["mount"], refused["source"]) == (True, "proc", "proc")
