"""What the module `files` writes, keeps, restores and removes; in the test's own process."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import files

from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {"owner": str(os.geteuid()), "group": str(os.getegid())}
OPTIONS: dict[str, Any] = {"content": "", "state": "present", "original": None, "mode": None, "validate": [], **OWN}


class Site:
    """Files of a host below `etc`, the record, and the module."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.etc = folder / "etc"
        self.etc.mkdir()
        self.record = folder / "state" / "record.json"
        self.record.parent.parent.mkdir(exist_ok=True)
        self.answer: Callable[[list[str]], tuple[int, str, str]] = lambda _argv: (0, "", "")
        self.asked: list[list[str]] = []
        self._monkeypatch = monkeypatch

    def want(self, *wanted: dict[str, Any], check: bool = False) -> dict[str, Any]:
        """The module's answer for files below `etc`."""
        rows = [{**OPTIONS, **row, "path": str(self.etc / row["path"])} for row in wanted]
        host = StandIn(self.answer, files=rows, record=str(self.record))
        host.check_mode = check
        found = play(self._monkeypatch, files, host)
        self.asked = host.asked
        found["changed_paths"] = [os.path.relpath(path, self.etc) for path in found["changed_paths"]]
        return found

    def names(self) -> list[str]:
        """All paths below `etc`."""
        return sorted(str(path.relative_to(self.etc)) for path in self.etc.rglob("*"))

    def kept(self, name: str) -> str:
        """Path for an original."""
        return str(self.etc / name)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


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


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("there", "changed"),
    [("", False), ("file", True), ("link", True), ("broken link", True), ("directory", False)],
)
def test_absent(site: Site, there: str, changed: bool, check: bool) -> None:
    """A directory of somebody else stays, and a link goes without its target."""
    path, target = site.etc / "x", site.etc / "target"
    target.mkdir()
    if there == "file":
        path.write_text("old\n")
    elif there == "directory":
        path.mkdir()
    elif there:
        path.symlink_to("target" if there == "link" else "nowhere")
    answer = site.want({"path": "x", "state": "absent"}, check=check)
    assert (answer["changed"], answer["changed_paths"]) == (changed, ["x"] if changed else [])
    left = ["target", "x"] if there and (check or not changed) else ["target"]
    assert site.names() == left
    if there == "file":
        assert (answer["diff"][0]["before"], answer["diff"][0]["after"]) == ("old\n", "")


def test_own_directories_go_when_they_are_empty(site: Site) -> None:
    site.want({"path": "a/b", "state": "directory"}, {"path": "a/c/x", "content": "1"})
    assert mode_of(site.etc / "a" / "b") == mode_of(site.etc / "a") == 0o755
    assert not site.want({"path": "a", "state": "absent"}, check=True)["changed"]
    assert not site.want({"path": "a", "state": "absent"})["changed"]
    assert site.want({"path": "a/b", "state": "absent"}, check=True)["changed"]
    assert site.want({"path": "a/b", "state": "absent"})["changed"]
    assert site.want({"path": "a/c/x", "state": "absent"}, check=True)["changed"]
    assert site.names() == ["a", "a/c", "a/c/x"]
    assert site.want({"path": "a/c/x", "state": "absent"})["changed"]
    assert (site.names(), site.record.exists()) == ([], False)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("mode", "wanted", "changed", "after"),
    [
        (None, {}, True, 0o755),
        (None, {"mode": "0700"}, True, 0o700),
        (0o2750, {}, False, 0o2750),
        (0o750, {"mode": "0750"}, False, 0o750),
        (0o750, {"mode": "0700"}, True, 0o700),
        (0o007, {}, False, 0o007),
    ],
)
def test_a_directory(
    site: Site, mode: int | None, wanted: dict[str, str], changed: bool, after: int, check: bool
) -> None:
    path = site.etc / "d"
    if mode is not None:
        path.mkdir()
        path.chmod(mode)
    answer = site.want({"path": "d", "state": "directory", **wanted}, check=check)
    assert answer["changed"] == changed
    if check:
        assert path.exists() == (mode is not None)
    assert (check and mode is None) or mode_of(path) == (mode if check else after)
    assert site.record.exists() == (mode is None and not check)


def test_owners_by_name_and_number(site: Site) -> None:
    assert files.owner_ids(None, {"path": "x", "owner": "root", "group": "root"}) == (0, 0)
    assert files.owner_ids(None, {"path": "x", "owner": None, "group": ""}) == (0, 0)
    assert files.owner_ids(None, {"path": "x", "owner": "12", "group": "34"}) == (12, 34)
    for wrong in ({"owner": "no-such-user"}, {"group": "no-such-group"}):
        answer = site.want({"path": "a.conf", "content": "x", **wrong})
        assert (answer["failed"], answer["changed_paths"], site.names()) == (True, [], [])
        assert next(iter(wrong.values())) in answer["msg"]


@pytest.mark.parametrize(
    ("owner", "group", "differ"), [(None, None, False), ("1", None, True), (None, "1", True), ("1", "1", True)]
)
def test_an_owner_that_differs(site: Site, owner: str | None, group: str | None, differ: bool) -> None:
    path = site.etc / "a"
    path.write_text("x")
    path.chmod(0o644)
    ids = (int(owner or os.geteuid()), int(group or os.getegid()))
    assert files.attributes_differ(str(path), {"mode": None, "state": "present"}, ids) is differ


@pytest.mark.parametrize(
    ("owner", "group", "expected"),
    [(None, None, "own own"), ("5", None, "5 own"), (None, "6", "own 6"), ("5", "6", "5 6")],
)
def test_an_existing_directory_keeps_the_owner_that_is_not_given(
    site: Site, owner: str | None, group: str | None, expected: str
) -> None:
    want = {"path": str(site.etc), "owner": owner, "group": group, "mode": None}
    found = files.kept_attributes(want, (5, 6))[1]
    info = site.etc.stat()
    names = [str(number) if number in (5, 6) else "own" for number in found]
    assert " ".join(names) == expected
    assert "own" not in names or {info.st_uid, info.st_gid} >= {number for number in found if number not in (5, 6)}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("text", "state", "kept_before", "kept"),
    [
        ("theirs\n", "present", None, "theirs\n"),
        ("theirs\n", "absent", None, "theirs\n"),
        ("theirs\n", "present", "first\n", "first\n"),
        ("# Managed by ddp-play\n", "present", None, None),
        (None, "present", None, None),
        (None, "absent", None, None),
    ],
)
def test_the_first_text_of_somebody_else_is_kept(
    site: Site, text: str | None, state: str, kept_before: str | None, kept: str | None, check: bool
) -> None:
    path, original = site.etc / "a", site.etc / "a.orig"
    if text is not None:
        path.write_text(text)
        path.chmod(0o640)
    if kept_before is not None:
        original.write_text(kept_before)
    want = {"path": "a", "state": state, "content": "ours\n", "original": site.kept("a.orig")}
    answer = site.want(want, check=check)
    assert answer["changed"] == (state == "present" or text is not None)
    expected = kept_before if check else kept
    assert (original.read_text() if original.exists() else None) == expected
    if expected is not None and kept_before is None:
        assert mode_of(original) == 0o640
    assert [name for name in site.names() if name not in ("a", "a.orig")] == []


def test_without_a_path_for_it_nothing_is_kept(site: Site) -> None:
    (site.etc / "a").write_text("theirs\n")
    site.want({"path": "a", "content": "ours\n"})
    assert site.names() == ["a"]


def test_a_link_is_kept_as_a_link(site: Site) -> None:
    (site.etc / "a").symlink_to("nowhere")
    site.want({"path": "a", "content": "ours\n", "original": site.kept("a.orig")})
    assert str((site.etc / "a.orig").readlink()) == "nowhere"
    assert (site.etc / "a").read_text() == "ours\n"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kind", ["original", "broken link", "none", "no name"])
def test_restored(site: Site, kind: str, check: bool) -> None:
    """The original, or nothing if there was none."""
    path, original = site.etc / "a", site.etc / "a.orig"
    path.write_text("ours\n")
    if kind == "original":
        original.write_text("theirs\n")
        original.chmod(0o604)
    elif kind == "broken link":
        original.symlink_to("nowhere")
    name = None if kind == "no name" else site.kept("a.orig")
    answer = site.want({"path": "a", "state": "restored", "original": name}, check=check)
    assert (answer["changed_paths"], answer["diff"][0]["before"]) == (["a"], "ours\n")
    assert answer["diff"][0]["after"] == ("theirs\n" if kind == "original" else "")
    if check:
        assert path.read_text() == "ours\n"
    elif kind == "original":
        assert (path.read_text(), mode_of(path), site.names()) == ("theirs\n", 0o604, ["a"])
    elif kind == "broken link":
        assert str(path.readlink()) == "nowhere"
    else:
        assert site.names() == []
