"""What the module `files` keeps of the site before its first change, and gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.removal.files_site import Site, mode_of, site

if TYPE_CHECKING:
    pass

__all__ = ["site"]


OURS = "# Managed by ddp-play\nours\n"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("text", "state", "kept_before", "kept"),
    [
        ("theirs\n", "present", None, "theirs\n"),
        ("theirs\n", "absent", None, "theirs\n"),
        ("theirs\n", "present", "first\n", "theirs\n"),
        ("theirs\n", "absent", "first\n", "theirs\n"),
        ("# Managed by ddp-play\n", "present", "first\n", "first\n"),
        ("# Managed by ddp-play\n", "absent", "first\n", "first\n"),
        ("# Managed by ddp-play\n", "present", None, None),
        (None, "present", None, None),
        (None, "absent", None, None),
    ],
)
def test_the_newest_text_of_somebody_else_is_kept(
    site: Site, text: str | None, state: str, kept_before: str | None, kept: str | None, check: bool
) -> None:
    path, original = site.etc / "a", site.etc / "a.orig"
    if text is not None:
        path.write_text(text)
        path.chmod(0o640)
    if kept_before is not None:
        original.write_text(kept_before)
    want = {"path": "a", "state": state, "content": OURS, "original": site.kept("a.orig")}
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
