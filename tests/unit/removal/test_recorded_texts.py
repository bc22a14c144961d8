"""Files without a mark, which the site may have with the same text: the module `files` removes only what it wrote."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.removal.files_site import Site, mode_of, site

__all__ = ["site"]


def entry(site: Site, **more: Any) -> dict[str, Any]:
    return {"path": "a", "content": "ours\n", "original": site.kept("a.orig"), "recorded": True, **more}


def test_a_file_that_was_not_there_goes_with_the_record(site: Site) -> None:
    want = entry(site, path="new/a")
    assert site.want(want, check=True)["changed"]
    assert not site.record.exists()
    assert site.want(want)["changed_paths"] == ["new/a"]
    assert not site.want(want)["changed"]
    back = {**want, "state": "restored"}
    assert site.want(back, check=True)["changed_paths"] == ["new/a"]
    answer = site.want(back)
    assert (answer["changed_paths"], answer["left_paths"], site.names()) == (["new/a"], [], [])
    assert not site.record.exists()


@pytest.mark.parametrize("check", [False, True])
def test_a_file_of_the_site_with_the_same_text_is_not_touched(site: Site, check: bool) -> None:
    path = site.etc / "a"
    path.write_text("ours\n")
    path.chmod(0o600)
    assert not site.want(entry(site), check=check)["changed"]
    answer = site.want(entry(site, state="restored"), check=check)
    assert (answer["changed"], answer["left_paths"]) == (False, [str(path)])
    assert (site.names(), path.read_text(), mode_of(path)) == (["a"], "ours\n", 0o600)
    assert not site.record.exists()


def test_a_file_of_the_site_with_another_text_comes_back(site: Site) -> None:
    path = site.etc / "a"
    path.write_text("site\n")
    path.chmod(0o640)
    answer = site.want(entry(site))
    assert [row["whose"] for row in answer["ddp_changes"]] == ["theirs", "new"]
    answer = site.want(entry(site, content="ours, renewed\n"))
    assert [row["whose"] for row in answer["ddp_changes"]] == ["ours"]
    assert (site.etc / "a.orig").read_text() == "site\n"
    answer = site.want(entry(site, state="restored", content=""))
    assert answer["left_paths"] == []
    assert (site.names(), path.read_text(), mode_of(path)) == (["a"], "site\n", 0o640)
    assert not site.record.exists()


def test_a_file_that_the_site_has_changed_since_stays(site: Site) -> None:
    site.want(entry(site))
    (site.etc / "a").write_text("edited\n")
    answer = site.want(entry(site, state="restored"))
    assert (answer["changed"], answer["left_paths"]) == (False, [str(site.etc / "a")])
    assert (site.etc / "a").read_text() == "edited\n"
    assert not site.record.exists()


def test_a_writing_that_was_cut_off_keeps_no_original_of_our_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.want(entry(site))
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", lambda _handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            site.want(entry(site, content="renewed\n"))
    site.want(entry(site, content="renewed\n"))
    assert site.names() == ["a"]
    site.want(entry(site, state="restored"))
    assert site.names() == []


def test_what_a_version_without_the_record_wrote_goes_with_its_directory(site: Site) -> None:
    old = {"path": "new/a", "content": "ours\n"}
    site.want(old)
    answer = site.want(entry(site, path="new/a", state="restored"))
    assert (answer["changed_paths"], site.names()) == (["new/a"], [])
