"""What the module `files` removes, and which directories and owners it leaves as they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.modules import files

from tests.unit.removal.files_site import Site, mode_of, site

if TYPE_CHECKING:
    pass

__all__ = ["site"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("there", "changed"),
    [
        ("", False),
        ("file", True),
        ("link to a file", True),
        ("broken link", True),
        ("directory", False),
        ("link to a directory", False),
    ],
)
def test_absent(site: Site, there: str, changed: bool, check: bool) -> None:
    """A directory of somebody else stays, as does a link to one; another link goes without its target."""
    path, target = site.etc / "x", site.etc / "target"
    target.touch() if there == "link to a file" else target.mkdir()
    if there == "file":
        path.write_text("old\n")
    elif there == "directory":
        path.mkdir()
    elif there:
        path.symlink_to("nowhere" if there == "broken link" else "target")
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
