"""The record of the roles on a host: what goes in, what comes out, and that nothing of it stays when it is empty."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import host_record


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(tmp_path / "etc" / "ddp-play" / "record.json")


def test_a_record_is_read_as_it_was_written(record: str) -> None:
    assert host_record.load(record) == {}
    host_record.save(record, {"base_os": {"packages": ["chrony"]}, "nccl": {}})
    assert host_record.load(record) == {"base_os": {"packages": ["chrony"]}}
    assert Path(record).stat().st_mode & 0o777 == 0o644


def test_an_empty_record_goes_with_its_directory(record: str) -> None:
    host_record.save(record, {"a": {"b": 1}})
    host_record.save(record, {"a": {}})
    assert not Path(record).parent.exists()
    host_record.save(record, {})


def test_a_note_about_the_acceptance_does_not_keep_a_record(record: str) -> None:
    host_record.save(record, {"a": {"b": 1}, host_record.ACCEPTANCE: {"due": True}})
    assert host_record.is_new(record)
    host_record.save(record, {"a": {}, host_record.ACCEPTANCE: {"due": True}})
    assert not Path(record).parent.exists()
    assert not host_record.is_new(record)


def test_a_damaged_record_is_none_of_a_new_host(record: str) -> None:
    Path(record).parent.mkdir(parents=True)
    Path(record).write_text("[]")
    assert not host_record.is_new(record)


def test_a_directory_with_other_files_stays(record: str) -> None:
    host_record.save(record, {"a": {"b": 1}})
    (Path(record).parent / "firewall.nft").touch()
    host_record.save(record, {})
    assert [path.name for path in Path(record).parent.iterdir()] == ["firewall.nft"]


def test_a_damaged_record_is_an_error(record: str) -> None:
    Path(record).parent.mkdir(parents=True)
    Path(record).write_text("[]")
    with pytest.raises(ValueError, match="not a JSON object"):
        host_record.load(record)


def test_only_created_directories_are_removed_and_only_when_empty(record: str, tmp_path: Path) -> None:
    theirs = tmp_path / "srv"
    theirs.mkdir()
    deep = theirs / "new" / "runs"
    host_record.make_directories(record, str(deep))
    host_record.make_directories(record, str(deep))
    assert host_record.load(record)["directories"] == [str(deep.parent), str(deep)]
    (deep / "data").touch()
    assert not host_record.remove_made(record, str(deep))
    (deep / "data").unlink()
    assert host_record.remove_made(record, str(deep))
    assert list(theirs.iterdir()) == []
    assert not host_record.remove_made(record, str(theirs))
    assert not Path(record).parent.exists()


def test_a_created_directory_that_somebody_removed_leaves_the_record(record: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    host_record.make_directories(record, str(gone))
    gone.rmdir()
    host_record.remove_made(record, str(gone))
    assert host_record.load(record) == {}


def folders_of(record: str) -> object:
    return host_record.load(record).get("directories")


@pytest.mark.parametrize(
    ("text", "found"), [("{}", {}), ('{"a": {"b": 1}}', {"a": {"b": 1}}), ("[]", None), ("", None), ("{", None)]
)
def test_what_a_record_may_contain(record: str, text: str, found: object) -> None:
    Path(record).parent.mkdir(parents=True)
    Path(record).write_text(text)
    if found is None:
        with pytest.raises(ValueError, match=r"."):
            host_record.load(record)
    else:
        assert host_record.load(record) == found


def test_the_file_of_a_record(record: str) -> None:
    """Readable by all, in a directory that all may enter, nothing next to it but the accounts."""
    host_record.save(record, {"b": {"x": [2, 1]}, "a": {"y": 1}, "none": {}, "empty": []})
    assert Path(record).read_text() == json.dumps({"a": {"y": 1}, "b": {"x": [2, 1]}}, indent=2) + "\n"
    assert Path(record).stat().st_mode & 0o777 == 0o644
    assert Path(record).parent.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in Path(record).parent.iterdir()) == ["accounts", "record.json"]


def test_names_are_added_to_those_of_the_role(record: str) -> None:
    host_record.save(record, {"base_os": {"packages": ["chrony"], "n": 1}, "nccl": {"packages": ["x"]}})
    host_record.add_names(record, "base_os", "packages", ["bash", "chrony"])
    host_record.add_names(record, "base_os", "replaced", ["ntp"])
    expected = {"packages": ["bash", "chrony"], "replaced": ["ntp"], "n": 1}
    assert host_record.load(record) == {"base_os": expected, "nccl": {"packages": ["x"]}}


def test_no_names_make_no_record(record: str) -> None:
    host_record.add_names(record, "base_os", "packages", [])
    assert not Path(record).exists()


def accounts(record: str) -> Path:
    """/etc with a group file and its backup."""
    etc = Path(record).parent.parent
    etc.mkdir(parents=True)
    (etc / "group").write_text("root:x:0:\n")
    (etc / "group-").write_text("old\n")
    return etc


def test_backups_of_accounts_are_kept_with_the_first_record_and_come_back_with_the_last(record: str) -> None:
    etc = accounts(record)
    host_record.save(record, {"a": {"b": 1}})
    (etc / "group-").write_text("changed\n")
    host_record.save(record, {"a": {"b": 2}})
    assert (Path(record).parent / "accounts" / "group-").read_text() == "old\n"
    host_record.save(record, {"a": {}})
    assert ((etc / "group-").read_text(), Path(record).parent.exists()) == ("old\n", False)


def test_accounts_are_not_copied_when_the_record_exists(record: str) -> None:
    host_record.save(record, {"a": {"b": 1}})
    kept = Path(record).parent / "accounts"
    for path in kept.iterdir():
        path.unlink()
    kept.rmdir()
    host_record.save(record, {"a": {"b": 2}})
    assert not kept.exists()


@pytest.mark.parametrize(
    ("kind", "removed"),
    [("missing", False), ("file", False), ("full", False), ("link", False), ("empty", True)],
)
def test_only_an_empty_directory_is_removed(tmp_path: Path, kind: str, removed: bool) -> None:
    path, other = tmp_path / "x", tmp_path / "other"
    other.mkdir()
    if kind == "file":
        path.touch()
    elif kind == "link":
        path.symlink_to(other)
    elif kind != "missing":
        path.mkdir()
    if kind == "full":
        (path / "a").touch()
    assert host_record.remove_if_empty(str(path)) is removed
    assert path.exists() == (kind in ("file", "full", "link"))
    assert other.is_dir()


def test_new_directories_are_recorded_before_they_exist(
    record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is killed in between leaves no directory that nobody knows."""
    seen: list[bool] = []
    save = host_record.save

    def saved(path: str, wanted: dict[str, object]) -> None:
        seen.append((tmp_path / "a").exists())
        save(path, wanted)

    monkeypatch.setattr(host_record, "save", saved)
    host_record.make_directories(record, str(tmp_path / "a" / "b"))
    assert (seen, folders_of(record)) == ([False], [str(tmp_path / "a"), str(tmp_path / "a" / "b")])
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755
    host_record.make_directories(record, str(tmp_path / "a" / "b"))
    assert len(seen) == 1, "nothing is new"
    host_record.make_directories(record, str(tmp_path / "a" / "c"))
    assert folders_of(record) == [str(tmp_path / name) for name in ("a", "a/b", "a/c")]


def test_the_directory_of_the_record_is_known_without_an_entry(record: str) -> None:
    own = str(Path(record).parent)
    Path(own).parent.mkdir()
    host_record.make_directories(record, own)
    assert (Path(own).is_dir(), Path(record).exists()) == (True, False)
    assert host_record.made_here(record, own)
    assert not host_record.made_here(record, str(Path(own).parent))
    assert host_record.remove_made(record, own)
    assert not Path(own).exists()


def test_the_other_entries_of_the_record_stay(record: str, tmp_path: Path) -> None:
    host_record.save(record, {"base_os": {"packages": ["chrony"]}})
    host_record.make_directories(record, str(tmp_path / "a" / "b"))
    assert host_record.load(record)["base_os"] == {"packages": ["chrony"]}
    assert host_record.remove_made(record, str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()
    assert host_record.load(record) == {"base_os": {"packages": ["chrony"]}}


def test_a_parent_that_is_not_empty_stays_recorded(record: str, tmp_path: Path) -> None:
    host_record.make_directories(record, str(tmp_path / "a" / "b"))
    (tmp_path / "a" / "theirs").touch()
    assert host_record.remove_made(record, str(tmp_path / "a" / "b"))
    assert ((tmp_path / "a" / "theirs").exists(), folders_of(record)) == (True, [str(tmp_path / "a")])
    assert not host_record.remove_made(record, str(tmp_path / "a"))


def test_a_record_is_on_the_disk_before_it_replaces_the_old_one(record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power cut could leave an empty one."""
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, Path(record).exists())))
    host_record.save(record, {"a": {"b": 1}})
    assert synced == [(Path(record).stat().st_size, False)]


def test_a_record_that_cannot_be_written_leaves_no_temporary_file(record: str) -> None:
    (Path(record) / "theirs").mkdir(parents=True)
    with pytest.raises(OSError, match=r"record\.json"):
        host_record.save(record, {"a": {"b": 1}})
    assert [path.name for path in Path(record).parent.iterdir()] == ["record.json"]


def test_names_have_no_architecture_and_a_damaged_record_has_none(record: str) -> None:
    host_record.add_names(record, "nccl", "held", ["libnccl2:amd64", "libnccl2", "libnccl-dev"])
    assert host_record.names(record, "nccl", "held") == ["libnccl-dev", "libnccl2"]
    assert host_record.names(record, "", "held") == []
    Path(record).write_text("[1]")
    assert host_record.names(record, "nccl", "held") == []
