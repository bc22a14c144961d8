"""Dumps of torch's flight recorder are read as nobody important, with limits, and leave nothing behind."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import flight_recorder_analysis, processes
from ddp_play.guard.flight_recorder_analysis import Dumps
from ddp_play.guard.refusal import Refused
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.guard.run_directory import HostRun
    from tests.unit.guard.conftest import Engine

FAKE = "torch/distributed/flight_recorder/fr_trace.py"


@pytest.fixture
def dumps() -> Iterator[Dumps]:
    """Those of one channel."""
    made = Dumps()
    yield made
    made.close()


def spec(**env: str) -> dict[str, Any]:
    """In place of root, nobody reads: not a Python in root's home."""
    own = str(Path(sys.executable).parent)
    bin_dirs = "/usr/bin:/bin" if os.geteuid() == 0 else f"{own}:/usr/bin:/bin"
    rank = {"rank": 0, "env": {"PATH": bin_dirs, "SECRET": "x", **env}}
    return {"runtime": "process", "attempt": 1, "ranks": [rank]}


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes a spec whose torch is this script in the place of fr_trace; any user may read it."""
    root = Path("/tmp") / tmp_path_factory.mktemp("torch").name

    def make(script: str) -> dict[str, Any]:
        module = root / FAKE
        module.parent.mkdir(parents=True)
        for package in list(module.parents)[:3]:
            (package / "__init__.py").touch()
        module.write_text("import os, sys, time\n" + script)
        return spec(PYTHONPATH=str(root))

    yield make
    shutil.rmtree(root, ignore_errors=True)


def dump(rank: int, num_collectives: int) -> bytes:
    """A dump as torch 2.13.0 wrote it over gloo, with the process group named as NCCL names it."""
    entry = {
        "frames": [{"name": "step", "filename": "/workspace/train.py", "line": 9}],
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "p2p_seq_id": 0,
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[3, 8]],
        "output_dtypes": ["Float"],
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "timeout_ms": 4000,
        "is_p2p": False,
    }
    names = ["all_reduce", "all_reduce", "all_reduce", "all_gather"][:num_collectives]
    entries = [
        {
            **entry,
            "record_id": number,
            "collective_seq_id": number + 1,
            "op_id": number + 1,
            "time_created_ns": 1000 + number,
            "profiling_name": f"nccl:{name}",
            "output_sizes": [[3, 8]] if name == "all_gather" else [[8]],
            "state": "scheduled" if number == 3 else "completed",
            "retired": number != 3,
        }
        for number, name in enumerate(names)
    ]
    group = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    return pickle.dumps({"version": "2.10", "pg_config": group, "pg_status": {}, "entries": entries})


def test_torchs_own_analysis_of_three_dumps(place: HostRun, dumps: Dumps) -> None:
    for rank, num_collectives in enumerate([4, 4, 3]):
        data = dump(rank, num_collectives)
        dumps.receive(place, rank, data[:100])
        dumps.receive(place, rank, data[100:])
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    text = dumps.analyse(place, spec(PYTHONPATH=packages))
    if "No module named" in text or "C extensions" in text:  # or the Python that everybody may execute is another one
        pytest.skip(f"no Python with torch that user {flight_recorder_analysis.NOBODY} may execute: {text[-200:]}")
    assert "Not all ranks joining collective, sequence number: 4" in text
    assert "collective: nccl:all_gather\nmissing ranks: {2}" in text


def test_it_runs_as_the_ranks_user_and_never_as_root(place: HostRun, dumps: Dumps, fake: Any) -> None:
    dumps.receive(place, 0, b"x")
    script = "print(os.getuid(), os.listdir('.'), open('rank_0').read(), os.environ.get('SECRET'), sys.argv[1:])"
    text = dumps.analyse(place, fake(script))
    uid = os.geteuid() or flight_recorder_analysis.NOBODY
    assert text == f"{uid} ['rank_0'] x None ['.', '-p', 'rank_']\n"


def test_what_it_prints_is_limited(place: HostRun, dumps: Dumps, fake: Any) -> None:
    dumps.receive(place, 0, b"x")
    text = dumps.analyse(place, fake("while True: print('x' * 1000)"))
    assert len(text) < flight_recorder_analysis.MAX_TEXT_BYTES + 100
    assert "fr_trace ended with exit code" in text[-100:]


def test_its_memory_is_limited(place: HostRun, dumps: Dumps, fake: Any) -> None:
    dumps.receive(place, 0, b"x")
    assert "MemoryError" in dumps.analyse(place, fake("x = bytearray(8 << 30)"))


def test_it_is_ended_with_everything_it_started(
    place: HostRun, dumps: Dumps, fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pickle that starts a session of its own and does not end."""
    monkeypatch.setattr(flight_recorder_analysis, "TIME_S", 1.0)
    dumps.receive(place, 0, b"x")
    child = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(987)\n    os._exit(0)\n"
    others, began = set(processes.descendants(os.getpid())), time.monotonic()
    with pytest.raises(Refused, match="did not end in 1 s"):
        dumps.analyse(place, fake(child + "os.wait()\ntime.sleep(987)\n"))
    assert time.monotonic() - began < 20
    wait_until(
        lambda: (
            not [
                pid
                for pid in processes.descendants(os.getpid())
                if pid not in others and (processes.stat_fields(pid) or "Z")[0] != "Z"
            ]
        )
    )


def test_dumps_that_are_too_large(place: HostRun, dumps: Dumps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_recorder_analysis, "MAX_DUMPS_BYTES", 10)
    dumps.receive(place, 0, b"123456789")
    with pytest.raises(Refused, match="larger than"):
        dumps.receive(place, 1, b"12")


def test_in_an_image_the_reader_gets_a_copy_and_nothing_of_the_ranks(
    place: HostRun, dumps: Dumps, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A program stands for Apptainer. In place of root it runs as nobody, who finds the dumps by their path."""
    program = Path("/tmp") / f"{tmp_path_factory.mktemp('image').name}-apptainer"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\nset -- ${7#*source=}\nid -u; cat ${1%%,*}/rank_0\n")
    program.chmod(0o755)
    dumps.receive(place, 0, b"content")
    words = [str(program), "--quiet", "--nocolor", "exec", "--nv", "--mount", "type=bind,source=/data", "/x.sif"]
    order = spec()
    order["ranks"][0].update(argv=[*words, "python"], num_image_words=len(words))
    try:
        said = dumps.analyse(place, {**order, "runtime": "apptainer"}).splitlines()
    finally:
        program.unlink()
    assert said[:5] == ["--quiet", "--nocolor", "exec", "--containall", "--no-home"]
    assert ("/x.sif" in said, "--nv" in said, any("/data" in word for word in said)) == (True, False, False)
    assert said[-2:] == [str(os.geteuid() or flight_recorder_analysis.NOBODY), "content"]
    copy = said[6].split("source=")[1].split(",")[0]
    assert not Path(copy).exists()


@pytest.fixture
def in_container(place: HostRun, dumps: Dumps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Analyses in a container: a docker program on PATH runs this script in place of the CLI."""

    def analyse(script: str) -> str:
        program = tmp_path / "docker"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        dumps.receive(place, 0, b"x")
        create = ["create", "--name", "r", "--label", "ddp-play.run=night", "--user", "7:8", "image", "sh"]
        order = {
            **spec(),
            "runtime": "docker",
            "image": "train:1",
            "user": {"uid": 0, "gid": 0, "groups": [0]},
            "ranks": [{"rank": 0, "env": {}, "create": create}],
        }
        return dumps.analyse(place, order)

    return analyse


def test_a_container_has_no_network_and_limits(
    place: HostRun, in_container: Any, engine: Engine, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    assert in_container(f'printf "%s\\n" "$*" >>{said}\necho analysed') == "analysed\n"
    (run,) = said.read_text().splitlines()
    for words in (
        "--network none --read-only",
        "--user 65534:65534",
        "--memory 4294967296 --memory-swap 4294967296",
        "--cap-drop ALL --security-opt no-new-privileges --pids-limit 256",
        f"type=bind,source={place.root}/flight-recorder,target=/dumps,readonly",
        "--label ddp-play.run=night",
        "--entrypoint sh train:1 -c exec",
    ):
        assert words in run
    assert engine.asked == [f"DELETE /containers/ddp-{place.run_key}-a1-fr?force=1&v=1"]


def test_an_engine_that_hangs_does_not_end_the_channel(
    in_container: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean-up of the host follows on the same channel."""
    engine.awake.clear()
    monkeypatch.setattr(flight_recorder_analysis, "TIME_S", 0.5)
    monkeypatch.setattr(flight_recorder_analysis, "REMOVE_S", 0.2)
    with pytest.raises(Refused, match="did not end in"):
        in_container("exec sleep 60")
    wait_until(lambda: [request.split()[0] for request in engine.asked] == ["DELETE"], what="the request")


def test_no_python(place: HostRun, dumps: Dumps) -> None:
    dumps.receive(place, 0, b"x")
    with pytest.raises(Refused, match="no Python"):
        dumps.analyse(place, {**spec(), "ranks": [{"rank": 0, "env": {"PATH": "/nowhere"}}]})


def test_each_channel_begins_anew_and_an_analysis_ends_what_was_sent(place: HostRun, dumps: Dumps, fake: Any) -> None:
    words = fake("for name in sorted(os.listdir('.')): print(name, open(name).read())")
    for channel in (Dumps(), dumps, dumps):
        channel.receive(place, 0, b"x")
        channel.receive(place, 0, b"y")
        channel.receive(place, 1, b"z")
        assert channel.analyse(place, words) == "rank_0 xy\nrank_1 z\n"
    with pytest.raises(Refused, match="no dump"):
        dumps.analyse(place, words)


def test_what_took_the_name_of_a_dump_is_not_written(place: HostRun, dumps: Dumps) -> None:
    dumps.receive(place, 0, b"x")
    (place.flight_recorder / "rank_1").symlink_to(place.root / "elsewhere")
    with pytest.raises(FileExistsError):
        dumps.receive(place, 1, b"y")
    assert not (place.root / "elsewhere").exists()
