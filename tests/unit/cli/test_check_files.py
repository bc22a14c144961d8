"""Files of `ddp-play check`: refused before anything is measured, written after it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.own_records import OwnRecords
from ddp_play.cli import check_quarantine
from ddp_play.cli.check import document
from ddp_play.cli.check_files import Wanted
from ddp_play.errors import UsageError
from tests.unit.checks.fleets import fleet
from tests.unit.checks.matrices import with_matrix


@pytest.mark.parametrize(
    ("html", "bundle", "says"),
    [
        ("none/x.html", None, "there is no directory"),
        (None, "none/ticket", "there is no directory"),
        ("full", None, "that is a directory"),
        (None, "file", "that is a file"),
        (None, "full", "is there already"),
        (None, "old.tar.gz", "is there already"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, html: str | None, bundle: str | None, says: str) -> None:
    (tmp_path / "full").mkdir()
    for name in ("full/x", "file", "old.tar.gz"):
        (tmp_path / name).write_text("mine")
    wanted = Wanted(html=tmp_path / html if html else None, bundle=tmp_path / bundle if bundle else None)
    with pytest.raises(UsageError, match=says) as refused:
        wanted.scope("quick")
    assert refused.value.hint
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"mine"}


def test_a_directory_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_words: False)
    with pytest.raises(UsageError, match="no permission"):
        Wanted(html=tmp_path / "x.html").scope("quick")


def test_both_are_written_and_an_earlier_page_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.html").write_text("old")
    (tmp_path / "empty").mkdir()
    checked = with_matrix(fleet(2))
    answer = document((), "full", checked, OwnRecords((), ()))
    for wanted in (Wanted(html=tmp_path / "x.html", bundle=tmp_path / "t.tgz"), Wanted(bundle=tmp_path / "empty")):
        assert wanted.scope("full").outputs
        wanted.write(checked, answer, [], 4.25)
    assert "All 2 hosts are fit for jobs." in (tmp_path / "x.html").read_text()
    with tarfile.open(tmp_path / "t.tgz") as archive:
        summary = archive.extractfile("t/summary.json")
        assert summary is not None
        assert json.loads(summary.read())["about"]["took_s"] == 4.2
    assert (tmp_path / "empty/h2/facts.json").is_file()
    said = capsys.readouterr().err
    assert f"page: {tmp_path}/x.html" in said
    assert f"bundle: {tmp_path}/t.tgz" in said


def test_nothing_is_written_without_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Wanted().write(fleet(1), document((), "quick", fleet(1), OwnRecords((), ())), [], 1.0)
    assert list(Path.cwd().iterdir()) == []


def test_the_scope_has_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    assert Wanted().scope("quick") == CheckScope("quick")
    scope = Wanted(within="30s", record=True).scope("full")
    assert (scope.has_matrix, scope.record, scope.outputs, scope.budget.total_s) == (True, True, False, 30.0)
    with pytest.raises(UsageError, match="cannot be kept"):
        Wanted(within="1s").scope("full")


def test_a_release_and_a_record_are_of_hosts_and_not_of_a_job() -> None:
    for wanted in (Wanted(release=True), Wanted(record=True)):
        with pytest.raises(UsageError, match="is about hosts, not about a job"):
            wanted.choice(of_job=True)
    assert Wanted(quarantine=True).choice(of_job=True).act is check_quarantine.quarantine_failed
