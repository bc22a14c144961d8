"""What ranks put in the place of their files, tried as an unprivileged user against a program that runs as root."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import (
    artifact_collection,
    attempt_directories,
    shared_lock_check,
    source_unpacking,
    torchrun_ranks,
)
from ddp_play.guard.log_following import Following
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, read_json, write_json
from tests.unit.guard.host_program import Line
from tests.unit.guard.hostile import (
    NOBODY,
    SECRET,
    as_nobody,
    attempt,
    in_time,
    needs_root,
    root_only,
    shared_run,
)
from tests.unit.guard.test_source_unpacking import archive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_root

# What stands in the place of a file; {shadow} is a file that only root may read.
PUT = {
    "a symbolic link": "ln -s {shadow} {name}",
    "a symbolic link to a link": "ln -s {shadow} first; ln -s first {name}",
    "a FIFO": "mkfifo {name}",
    "a directory": "mkdir {name}",
}


def fetched(place: HostRun, order: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """(summary, name -> bytes) of all files that are sent."""
    got: dict[str, bytes] = {}

    def send(_kind: str, payload: bytes, **what: Any) -> None:
        name = what.get("path") or what["file"]
        got[name] = got.get(name, b"") + payload

    summary = in_time(
        lambda: artifact_collection.fetch(place, {"patterns": ["**"], "max_bytes": 10**6, **(order or {})}, send)
    )
    return summary, got


def with_source(place: HostRun, **more: Any) -> HostRun:
    """The working directory of the ranks' user is collected."""
    source = {"path": str(place.src), "collect": True, "manifest": {}, **more}
    attempt_directories.create_files(
        place, {**(read_json(place.spec) or {}), "make_dirs": [{"path": str(place.src), "mode": 448}]}
    )
    write_json(place.spec, {**(read_json(place.spec) or {}), "source": source})
    return place


@pytest.mark.parametrize("name", ["metrics.jsonl", "result.json", "error.json", "flight-recorder-0"])
@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_files_of_a_rank_are_never_another_file(tmp_path: Path, put: str, name: str) -> None:
    place, shadow = attempt(tmp_path), root_only(tmp_path)
    as_nobody(place.rank_dir(0), put.format(shadow=shadow, name=name))
    summary, got = fetched(place)
    assert got == {}
    of_torchft = name.startswith("flight-recorder") and put.startswith("mkdir")  # its directory for a quorum
    expected = [] if of_torchft else [str(place.rank_dir(0) / name)]
    assert [row["path"] for row in summary["missing"]] == expected
    assert SECRET not in str(summary).encode()


@pytest.mark.parametrize("name", ["metrics.jsonl", "nccl.log"])
@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_a_followed_file_is_never_another_file(tmp_path: Path, put: str, name: str) -> None:
    place, shadow = attempt(tmp_path), root_only(tmp_path)
    as_nobody(place.rank_dir(0), put.format(shadow=shadow, name=name))
    sent: list[Any] = []
    following = Following(lambda *frame, **fields: sent.append((frame, fields)))
    following.begin(place, {"logs": {"0": 0}, "metrics": {"0": 0}, "nccl": {"0": 0}})
    in_time(lambda: [following.turn()])
    assert sent == []


def test_a_hard_link_to_a_file_of_root_is_not_sent(tmp_path: Path) -> None:
    """Without fs.protected_hardlinks a rank can make one to any file on its file system."""
    place, shadow = with_source(attempt(tmp_path)), root_only(tmp_path)
    for name in ("metrics.jsonl", "nccl.log", "result.json"):
        os.link(shadow, place.rank_dir(0) / name)
    os.link(shadow, place.src / "model.pt")
    sent: list[Any] = []
    following = Following(lambda *frame, **fields: sent.append((frame, fields)))
    following.begin(place, {"logs": {}, "metrics": {"0": 0}, "nccl": {"0": 0}})
    following.turn()
    assert sent == []
    summary, got = fetched(place)
    assert got == {}
    assert len(summary["missing"]) == 3


@pytest.mark.parametrize("put", ["ln -s {shadow} a", "mkfifo a", "ln -s /dev/zero a", "ln -s {parent} a"])
def test_artifacts_are_regular_files_of_the_ranks_user(tmp_path: Path, put: str) -> None:
    place, shadow = with_source(attempt(tmp_path)), root_only(tmp_path)
    as_nobody(place.src, put.format(shadow=shadow, parent=shadow.parent) + "; echo good > model.pt")
    summary, got = fetched(place)
    assert got == {"model.pt": b"good\n"}
    assert summary["missing"] == []


def test_a_working_directory_that_became_a_link_is_not_collected(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    run = shared / ".ddp-play" / "night.0123456789abcdef"
    rows = [
        {"path": str(path), "mode": mode} for path, mode in ((run.parent, 0o1777), (run, 0o711), (run / "src", 448))
    ]
    source = {"path": str(run / "src"), "collect": True, "manifest": {}}
    place = attempt(tmp_path, make_dirs=rows, source=source)
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private" / "key").write_bytes(SECRET)
    as_nobody(run, f"mv src aside; ln -s {tmp_path / 'private'} src")
    summary, got = fetched(place)
    assert got == {}
    assert "symbolic link" in summary["missing"][0]["why"]


def test_a_directory_that_is_swapped_while_it_is_walked(tmp_path: Path) -> None:
    """A component becomes a link after the walk has seen a directory: thousands of times, and never once followed."""
    place = with_source(attempt(tmp_path))
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private" / "model.pt").write_bytes(SECRET)
    (tmp_path / "private").chmod(0o700)
    as_nobody(place.src, f"mkdir a b; echo mine > a/model.pt; ln -s {tmp_path / 'private'} c")
    over = threading.Event()

    def swap() -> None:
        src = os.open(place.src, os.O_RDONLY)
        names = [("a", "z"), ("c", "a"), ("a", "c"), ("z", "a")]
        while not over.is_set():
            for old, new in names:
                os.rename(old, new, src_dir_fd=src, dst_dir_fd=src)
        os.close(src)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        taken = [fetched(place)[1] for _ in range(150)]
    finally:
        over.set()
        thread.join()
    assert all(SECRET not in data for got in taken for data in got.values())
    assert any(got for got in taken), "it was a race"


def test_the_source_is_not_unpacked_through_a_link(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    (tmp_path / "etc").mkdir()
    as_nobody(run, f"ln -s {tmp_path / 'etc'} src")
    source = {"role": "unpack", "path": str(run / "src"), "digest": "d1", "wait_s": 0.1, "collect": True}
    place = attempt(tmp_path, source=source)
    archive(place, ("cron.d/job", "* * * * * root id", ""))
    with pytest.raises((Refused, OSError)):
        source_unpacking.unpack_source(place, read_json(place.spec) or {})
    assert list((tmp_path / "etc").iterdir()) == []


def test_the_source_belongs_to_the_ranks_user(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    rows = [{"path": str(run / "src"), "mode": 0o700}]
    source = {"role": "unpack", "path": str(run / "src"), "digest": "d1", "wait_s": 0.1, "collect": True}
    place = attempt(tmp_path, source=source, make_dirs=rows)
    archive(place, ("pkg/train.py", "print(1)", ""), ("data", "", "/data/imagenet"))
    source_unpacking.unpack_source(place, read_json(place.spec) or {})
    for path in (run / "src", run / "src/pkg", run / "src/pkg/train.py", run / "src/data"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (NOBODY, NOBODY), path
    assert (os.geteuid(), os.getegid()) == (0, 0)
    source_unpacking.unpack_source(place, {**(read_json(place.spec) or {}), "source": {**source, "role": "wait"}})


def test_the_source_is_unpacked_from_a_working_directory_that_the_ranks_user_may_not_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login of root begins in /root, which only root may enter."""
    run = shared_run(tmp_path)
    rows = [{"path": str(run / "src"), "mode": 0o700}]
    source = {"role": "unpack", "path": str(run / "src"), "digest": "d1", "wait_s": 0.1, "collect": True}
    place = attempt(tmp_path, source=source, make_dirs=rows)
    archive(place, ("pkg/train.py", "print(1)", ""))
    (tmp_path / "root").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "root")
    source_unpacking.unpack_source(place, read_json(place.spec) or {})
    assert (run / "src/pkg/train.py").stat().st_uid == NOBODY
    assert (tmp_path / "root").samefile(".")


def test_a_deep_tree_is_named_and_does_not_end_the_collection(tmp_path: Path) -> None:
    place = with_source(attempt(tmp_path))
    as_nobody(place.src, "echo x > model.pt")
    os.umask(0o022)
    place.src.joinpath(*"d" * 300).mkdir(parents=True)
    summary, got = fetched(place)
    assert list(got) == ["model.pt"]
    assert "deeper than" in summary["missing"][0]["why"]


def test_a_probe_of_locks_truncates_no_other_file(tmp_path: Path) -> None:
    run, shadow = shared_run(tmp_path), root_only(tmp_path)
    as_nobody(run, f"ln -s {shadow} rendezvous-1.lock")
    with pytest.raises(OSError, match="exists"):
        shared_lock_check.Held(run / "rendezvous-1.lock", "word")
    assert shadow.read_bytes() == SECRET
    assert "symbolic link" in shared_lock_check.problem(run / "rendezvous-1.lock", "word")


@pytest.mark.parametrize("name", [".started", ".exited"])
def test_what_a_wrapper_of_torchrun_says_does_not_block_the_guard(tmp_path: Path, name: str) -> None:
    place = attempt(tmp_path)
    agent = torchrun_ranks.Agent({"agent": {"rank": 0}, "ranks": [{"rank": 0}]}, place)
    as_nobody(place.rank_dir(0), f"mkfifo {name}")
    agent.workers[0].row["state"] = "created" if name == ".started" else "running"

    def poll() -> bool:
        agent.poll()
        return True

    assert in_time(poll)
    assert agent.workers[0].row["exit_code"] is None
    assert agent.workers[0].row["pid"] is None


# -- dumps of the flight recorder, which the controller sends back for an analysis ------------------------


def sent_dump(tmp_path: Path, place: HostRun, data: bytes) -> str:
    """Send a dump of rank 0 on a new channel, in two pieces, and have it analysed; what the answer is."""
    run, token = place.run_key.split(".")
    with Line(tmp_path / "state") as line:
        line.ask("open", run=run, token=token, attempt=1, host="h1")
        for piece in (data[:5], data[5:]):
            line.order("dump", piece, rank=0)
        return str(line.ask("analyse")["t"])


@needs_root
def test_a_dump_is_not_written_through_a_link(tmp_path: Path) -> None:
    """The analysis gave the directory to the ranks' user; then the controller died, and `attach` sends all again."""
    place = attempt(tmp_path, ranks=[{"rank": 0, "env": {"PATH": "/usr/bin:/bin"}}], runtime="process")
    shadow = root_only(tmp_path)
    assert sent_dump(tmp_path, place, b"a pickle") == "analysed"
    as_nobody(place.flight_recorder, f"rm rank_0; ln -s {shadow} rank_0; mkdir -p deep/er")
    assert sent_dump(tmp_path, place, b"a pickle") == "analysed"
    assert shadow.read_bytes() == SECRET
    assert shadow.stat().st_uid == 0
    assert {path.name: path.read_bytes() for path in place.flight_recorder.iterdir()} == {"rank_0": b"a pickle"}
