"""The module `files`, run as a program: writes what differs, all or nothing, once the new text was judged."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK
from ansible_collections.ddp.play.plugins.modules import files

from tests.unit.modules.module_process import FORKER

OWNER = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}
REFUSES = ["sh", "-c", "echo line 1 is wrong >&2; exit 3"]


@pytest.fixture(autouse=True)
def record(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The host's record, next to nothing that a test looks at."""
    path = tmp_path_factory.mktemp("host") / "ddp-play" / "record.json"
    monkeypatch.setenv("TEST_RECORD", str(path))
    return path


def run(*wanted: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """What the module answers for these files; an owner that is None is not given."""
    given = [{key: value for key, value in {**OWNER, **want}.items() if value is not None} for want in wanted]
    arguments = {"files": given, "record": os.environ["TEST_RECORD"], "_ansible_check_mode": check}
    return FORKER.answer(files.__file__, arguments)


def test_what_differs_is_written_once(tmp_path: Path) -> None:
    want = {"path": str(tmp_path / "new" / "a.conf"), "content": "a\n", "mode": "0640"}
    assert run(want, check=True)["changed"]
    assert list(tmp_path.iterdir()) == []
    assert run(want)["changed_paths"] == [want["path"]]
    assert Path(want["path"]).read_text() == "a\n"
    assert Path(want["path"]).stat().st_mode & 0o777 == 0o640
    assert not run(want)["changed"]


def test_a_text_is_judged_beside_the_file_it_will_be(tmp_path: Path) -> None:
    """AppArmor lets chronyd read /etc/chrony and not /tmp."""
    seen = tmp_path / "seen"
    judge = ["sh", "-c", f'echo "$0" > {seen}; cat "$0" >> {seen}', "%s"]
    folder = tmp_path / "etc"
    folder.mkdir()
    run({"path": str(folder / "a.conf"), "content": "a\n", "validate": judge})
    where, text = seen.read_text().splitlines()
    assert (Path(where).parent, text) == (folder, "a")
    assert [path.name for path in folder.iterdir()] == ["a.conf"]


def test_a_text_that_is_refused_changes_no_file(tmp_path: Path) -> None:
    good, bad = ({"path": str(tmp_path / name), "content": "x\n"} for name in ("good.conf", "bad.conf"))
    answer = run(good, {**bad, "validate": REFUSES})
    assert answer["failed"]
    assert "bad.conf: the new text is refused" in answer["msg"]
    assert "line 1 is wrong" in answer["msg"]
    assert list(tmp_path.iterdir()) == []


def test_only_own_empty_directories_are_removed(tmp_path: Path) -> None:
    theirs, full = tmp_path / "theirs", tmp_path / "full"
    theirs.mkdir()
    assert not run({"path": str(theirs), "state": "absent"})["changed"]
    run({"path": str(full), "state": "directory"})
    (full / "kept").touch()
    assert not run({"path": str(full), "state": "absent"})["changed"]
    (full / "kept").unlink()
    assert run({"path": str(full), "state": "absent"}, check=True)["changed"]
    assert run({"path": str(full), "state": "absent"})["changed"]
    assert list(tmp_path.iterdir()) == [theirs]


def test_directories_that_a_file_needed_go_with_the_last_file_in_them(tmp_path: Path, record: Path) -> None:
    theirs = tmp_path / "etc"
    theirs.mkdir()
    first, second = ({"path": str(theirs / "a" / "b" / name), "content": "x\n"} for name in ("1", "2"))
    run(first, second)
    run({"path": first["path"], "state": "absent"})
    assert Path(second["path"]).exists()
    run({"path": second["path"], "state": "absent"})
    assert list(theirs.iterdir()) == []
    assert not record.parent.exists()


def test_an_own_text_is_no_original(tmp_path: Path) -> None:
    path, kept = tmp_path / "nccl.conf", tmp_path / "nccl.conf.orig"
    path.write_text("# Managed by ddp-play (role nccl)\nold\n")
    run({"path": str(path), "content": "new\n", "original": str(kept)})
    assert not kept.exists()


def test_what_was_there_first_is_kept_once_and_comes_back(tmp_path: Path) -> None:
    path, kept = tmp_path / "daemon.json", tmp_path / "daemon.json.orig"
    path.write_text("theirs\n")
    path.chmod(0o600)
    want = {"path": str(path), "content": "ours\n", "original": str(kept)}
    assert run(want, check=True)["changed"]
    assert not kept.exists()
    assert run(want)["changed_paths"] == [str(path)]
    assert (path.read_text(), kept.read_text(), kept.stat().st_mode & 0o777) == ("ours\n", "theirs\n", 0o600)
    assert not run(want)["changed"]
    run({**want, "content": "ours again\n"})
    assert kept.read_text() == "theirs\n"
    back = {"path": str(path), "state": "restored", "original": str(kept)}
    assert run(back, check=True)["changed"]
    assert run(back)["changed_paths"] == [str(path)]
    assert (path.read_text(), path.stat().st_mode & 0o777, kept.exists()) == ("theirs\n", 0o600, False)


def test_what_stood_in_the_way_is_kept_and_where_nothing_was_nothing_is_left(tmp_path: Path) -> None:
    path, kept = tmp_path / "docker.list", tmp_path / "docker.list.orig"
    gone = {"path": str(path), "state": "absent", "original": str(kept)}
    assert not run(gone)["changed"]
    path.write_text("deb x\n")
    assert run(gone)["changed"]
    assert (path.exists(), kept.read_text()) == (False, "deb x\n")
    back = {"path": str(path), "state": "restored", "original": str(kept)}
    assert run(back)["changed"]
    assert path.read_text() == "deb x\n"
    assert run(back)["changed"]
    assert list(tmp_path.iterdir()) == []
    assert not run(back)["changed"]


def test_a_file_that_is_right_already_is_kept_without_being_called_changed(tmp_path: Path) -> None:
    """Whoever restarts a daemon for a changed file does not do so for a copy of it."""
    path = tmp_path / "daemon.json"
    path.write_text("same\n")
    path.chmod(0o644)
    answer = run({"path": str(path), "content": "same\n", "original": str(tmp_path / "kept")})
    assert answer["changed_paths"] == [str(tmp_path / "kept")]


NOBODY = pwd.getpwnam("nobody")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_an_owner_may_be_a_number(tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    want = {"path": str(path), "content": "{}\n", "owner": str(NOBODY.pw_uid), "group": "4711"}
    assert run(want)["changed"]
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY.pw_uid, 4711)
    assert not run(want)["changed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize(
    ("given", "owner", "group", "mode"),
    [
        pytest.param({}, NOBODY.pw_uid, NOBODY.pw_gid, 0o2770, id="nothing given"),
        pytest.param({"owner": "root"}, 0, NOBODY.pw_gid, 0o2770, id="owner"),
        pytest.param({"group": "root"}, NOBODY.pw_uid, 0, 0o2770, id="group"),
        pytest.param({"mode": "0750"}, NOBODY.pw_uid, NOBODY.pw_gid, 0o750, id="mode"),
    ],
)
def test_an_existing_directory_keeps_what_is_not_given(
    tmp_path: Path, given: dict[str, str], owner: int, group: int, mode: int
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    folder.chmod(0o2770)
    want = {"path": str(folder), "state": "directory", "owner": None, "group": None, **given}
    assert run(want, check=True)["changed"] == bool(given)
    assert run(want)["changed"] == bool(given)
    found = folder.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (owner, group, mode)
    assert not run(want)["changed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to root")
def test_a_new_directory_belongs_to_root(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert run({"path": str(folder), "state": "directory", "owner": None, "group": None})["changed"]
    found = folder.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, 0, 0o755)


def subjects(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(row["kind"], row["what"], row["whose"]) for row in answer["ddp_changes"]]


def test_rows_tell_whose_file_it_is(tmp_path: Path, record: Path) -> None:
    theirs, ours, new, folder = (tmp_path / name for name in ("theirs", "ours", "new", "folder"))
    theirs.write_text("site\n")
    ours.write_text(f"# {OWN_MARK}\nold\n")
    wanted = [
        {"path": str(theirs), "content": "x\n", "original": f"{theirs}.ddp-play.orig"},
        {"path": str(ours), "content": "x\n"},
        {"path": str(new), "content": "x\n"},
        {"path": str(folder), "state": "directory"},
    ]
    expected = [
        ("change", f"file {theirs}", "theirs"),
        ("add", f"file {theirs}.ddp-play.orig", "new"),
        ("change", f"file {ours}", "ours"),
        ("add", f"file {new}", "new"),
        ("add", f"directory {folder}", "new"),
    ]
    assert subjects(run(*wanted, check=True)) == expected
    assert subjects(run(*wanted)) == expected
    assert subjects(run(*wanted)) == []


def test_a_restored_file_is_a_change_and_one_without_original_is_removed(tmp_path: Path) -> None:
    kept, own = tmp_path / "kept", tmp_path / "own.json"
    kept.write_text(f"# {OWN_MARK}\n")
    own.write_text("{}")  # a file without room for the mark, where none was before
    (tmp_path / "kept.orig").write_text("site\n")
    wanted = [
        {"path": str(kept), "state": "restored", "original": f"{kept}.orig"},
        {"path": str(own), "state": "restored", "original": f"{own}.orig"},
    ]
    expected = [("change", f"file {kept}", "ours"), ("remove", f"file {own}", "ours")]
    assert subjects(run(*wanted, check=True)) == expected
    assert subjects(run(*wanted)) == expected
