"""When the module `files` writes a text, and that a failed write changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import files

from tests.unit.modules.stand_in import StandIn, accepted, documented
from tests.unit.removal.files_site import Site, mode_of, site

if TYPE_CHECKING:
    pass

__all__ = ["site"]


def test_the_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, files) == documented(files)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("before", "mode", "wanted", "changed"),
    [
        (None, None, {}, True),
        ("text\n", 0o644, {}, False),
        ("text\n", 0o600, {}, True),
        ("text\n", 0o600, {"mode": "0600"}, False),
        ("text\n", 0o644, {"mode": "0600"}, True),
        ("other\n", 0o644, {}, True),
        ("", 0o644, {"content": ""}, False),
        ("", 0o644, {}, True),
    ],
)
def test_a_text_is_written_where_it_or_its_mode_differs(
    site: Site, before: str | None, mode: int | None, wanted: dict[str, Any], changed: bool, check: bool
) -> None:
    path = site.etc / "a.conf"
    if before is not None:
        path.write_text(before)
        path.chmod(mode or 0)
    want = {"path": "a.conf", "content": "text\n", **wanted}
    answer = site.want(want, check=check)
    assert (answer["changed"], answer["changed_paths"]) == (changed, ["a.conf"] if changed else [])
    if changed:
        (row,) = answer["diff"]
        assert (row["before"], row["after"]) == (before or "", want["content"])
        assert row["before_header"] == row["after_header"] == str(path)
    if check:
        assert site.names() == ([] if before is None else ["a.conf"])
        assert before is None or (path.read_text(), mode_of(path)) == (before, mode)
    else:
        assert (path.read_text(), mode_of(path)) == (want["content"], int(wanted.get("mode", "0644"), 8))
        assert site.names() == ["a.conf"]


def test_a_link_is_replaced_and_its_target_stays(site: Site) -> None:
    (site.etc / "target").write_text("text\n")
    (site.etc / "a.conf").symlink_to("target")
    assert site.want({"path": "a.conf", "content": "text\n"})["changed"]
    assert ((site.etc / "a.conf").is_symlink(), (site.etc / "target").read_text()) == (False, "text\n")


def test_a_directory_in_place_of_a_file_is_an_error(site: Site) -> None:
    (site.etc / "a.conf").mkdir()
    answer = site.want({"path": "a.conf", "content": "x"})
    assert (answer["failed"], answer["changed_paths"]) == (True, [])
    assert answer["msg"] == f"{site.etc}/a.conf: there is a directory in place of the file"
    assert site.names() == ["a.conf"]


def test_a_text_is_on_the_disk_before_it_replaces_the_old_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, bool]] = []
    path = site.etc / "a.conf"
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, path.exists())))
    site.want({"path": "a.conf", "content": "new"})
    assert synced == [(3, False)]


def test_a_write_that_fails_leaves_the_old_text_and_no_temporary_file(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.etc / "a.conf").write_text("old")

    def broken(_self: StandIn, _source: str, _target: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(StandIn, "atomic_move", broken)
    with pytest.raises(OSError, match="no space left"):
        site.want({"path": "a.conf", "content": "new"})
    assert (site.names(), (site.etc / "a.conf").read_text()) == (["a.conf"], "old")


@pytest.mark.parametrize(
    ("check", "program", "same", "asked"),
    [(False, "sh", False, 1), (True, "sh", False, 1), (True, "absent", False, 0), (False, "absent", True, 0)],
)
def test_when_a_new_text_is_judged(site: Site, check: bool, program: str, same: bool, asked: int) -> None:
    if same:
        (site.etc / "a.conf").write_text("new")
        (site.etc / "a.conf").chmod(0o644)
    seen: list[tuple[str, str]] = []

    def judge(argv: list[str]) -> tuple[int, str, str]:
        seen.append((argv[1], Path(argv[2].partition("=")[2]).read_text()))
        return 0, "", ""

    site.answer = judge
    site.want({"path": "a.conf", "content": "new", "validate": [program, "-n", "--file=%s"]}, check=check)
    assert seen == [("-n", "new")] * asked
    assert site.names() == (["a.conf"] if same or not check else [])


@pytest.mark.parametrize(("out", "err", "why"), [("said", "", "said"), ("said", " line 1 \n", "line 1")])
def test_a_text_that_is_refused_is_written_nowhere(site: Site, out: str, err: str, why: str) -> None:
    site.answer = lambda _argv: (3, out, err)
    wanted = {"path": "b.conf", "content": "x", "validate": ["sh", "%s"]}
    answer = site.want({"path": "a.conf", "content": "x"}, wanted)
    assert (answer["failed"], answer["changed_paths"], site.names()) == (True, [], [])
    assert answer["msg"] == f"{site.etc}/b.conf: the new text is refused by 'sh %s' (exit code 3): {why}"
    assert not Path(site.asked[0][1]).exists()


@pytest.mark.parametrize("state", ["absent", "restored", "directory"])
def test_only_a_text_is_judged(site: Site, state: str) -> None:
    site.want({"path": "a.conf", "state": state, "content": "x", "validate": ["sh", "%s"]})
    assert site.asked == []
