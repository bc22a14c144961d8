"""Files of records: found by machine, private, and as none where they cannot be read."""

from __future__ import annotations

import pytest

from ddp_play.checks import record_store
from ddp_play.checks.host_records import record_of

from .fleets import fleet
from .matrices import with_matrix


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "home"))


def test_what_was_saved_is_loaded_for_the_same_machines() -> None:
    checked = with_matrix(fleet(2))
    made = [record_of(host, checked, "full", "2030-01-02T03:04:05Z") for host in checked.reached]
    assert record_store.load(checked) == {}
    record_store.save(made)
    assert record_store.load(checked) == {row.machine: row for row in made}
    assert record_store.load(fleet(1)) == {"id1": made[0]}
    assert record_store.known_mbps(checked) == {("h1", "h2"): 1000.0, ("h2", "h1"): 1000.0}
    for path in record_store.records_dir().iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_where_records_cannot_be_kept_that_is_said_before_there_are_any() -> None:
    record_store.prepare()
    assert record_store.records_dir().stat().st_mode & 0o777 == 0o700
    record_store.records_dir().rmdir()
    record_store.records_dir().write_text("")
    with pytest.raises(OSError, match="exists"):
        record_store.prepare()


def test_a_machine_id_is_no_path() -> None:
    assert record_store.path_of("../../x").parent == record_store.records_dir()


def test_a_broken_file_and_that_of_another_machine_are_as_none() -> None:
    checked = with_matrix(fleet(2))
    made = [record_of(host, checked, "full", "2030-01-02T03:04:05Z") for host in checked.reached]
    record_store.save(made)
    record_store.path_of("id1").write_text("{")
    record_store.path_of("id2").write_text(record_store.path_of("id2").read_text().replace('"id2"', '"id3"'))
    assert record_store.load(checked) == {}
    assert record_store.load(fleet(1, h1={"identity": {"problem": "hangs"}})) == {}
