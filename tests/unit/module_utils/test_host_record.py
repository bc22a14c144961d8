"""The record of the roles on a host: what goes in, what comes out, and that nothing of it stays when it is empty."""

from __future__ import annotations

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
