"""Who makes a host busy: every container, every rank, and an engine that cannot be asked."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import occupants

from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import RUN, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

DB = {"name": "db", "image": "postgres:16"}


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ((0, "", ""), "running"),
        ((124, "", "no answer within 10 s"), "silent"),
        ((127, "", "docker: not found"), "absent"),
        (
            (
                1,
                "",
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            ),
            "stopped",
        ),
        ((1, "", "permission denied while trying to connect"), "unknown"),
        ((1, "", ""), "unknown"),
    ],
)
def test_state_of_the_engine(answer: tuple[int, str, str], state: str) -> None:
    assert occupants.engine_state(answer) == state


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("db\tpostgres:16\n", ["db"]),
        ("db\tpostgres:16\nddp-play-night-1-r0\tteam/train:2\n", ["db", "ddp-play-night-1-r0"]),
        ("ddp-dcgm-exporter\tnvidia/dcgm-exporter:4\n", []),
    ],
)
def test_containers_of_anybody_count_and_our_services_do_not(text: str, names: list[str]) -> None:
    assert [row["name"] for row in occupants.parse_containers(text)] == names


@pytest.mark.parametrize(
    ("steps", "text"), [(0, []), (1, ["1 step of Slurm jobs running"]), (3, ["3 steps of Slurm jobs running"])]
)
def test_steps_of_slurm_jobs_count(steps: int, text: list[str]) -> None:
    assert occupants.reasons("absent", "", [], 0, [], steps=steps) == text


def test_a_guard_is_named_by_its_run() -> None:
    line = "412 /usr/bin/python3 -I -S /run/user/7/ddp-play.pyc guard /home/ops/.ddp-play/runs/night/1"
    assert occupants.parse_guards(f"{line}\n\n") == ["/home/ops/.ddp-play/runs/night/1"]


@pytest.mark.parametrize(
    ("engine", "error", "containers", "shims", "guards", "expected"),
    [
        ("running", "", [], 0, [], []),
        ("running", "", [], 1, [], []),  # a managed plugin of the engine has a shim too
        ("stopped", "Cannot connect", [], 0, [], []),
        ("absent", "docker: not found", [], 0, [], []),
        ("running", "", [DB], 1, [], ["1 container running: db (postgres:16)"]),
        ("silent", "no answer within 10 s", [], 0, [], ["the Docker engine does not answer (no answer within 10 s)"]),
        ("unknown", "permission denied\nmore", [], 0, [], [
            "the Docker engine does not list its containers (permission denied)"
        ]),
        ("unknown", "", [], 0, [], ["the Docker engine does not list its containers (no message)"]),
        ("stopped", "Cannot connect", [], 2, [], ["2 containers running while the engine does not answer"]),
        ("absent", "", [], 1, [], ["1 container running while the engine does not answer"]),
        ("absent", "", [], 0, ["/h/runs/a/1"], ["ranks running: /h/runs/a/1"]),
    ],
)  # fmt: skip
def test_reasons(
    engine: str, error: str, containers: list[dict[str, str]], shims: int, guards: list[str], expected: list[str]
) -> None:
    assert occupants.reasons(engine, error, containers, shims, guards) == expected


def test_an_attempt_without_a_guard_counts_and_one_with_a_guard_counts_once() -> None:
    found = occupants.reasons("absent", "", [], 0, ["/h/runs/a/1"], attended=["/h/runs/a/1", "/h/runs/b/2"])
    assert found == ["ranks running: /h/runs/a/1", "runs being prepared, collected or restarted: /h/runs/b/2"]


def test_a_long_list_is_shortened() -> None:
    rows = [{"name": f"c{number}", "image": "i"} for number in range(8)]
    (reason,) = occupants.reasons("running", "", rows, 8, [])
    assert reason.startswith("8 containers running: c0 (i), ")
    assert reason.endswith("c4 (i) and 3 more")


def program(folder: Path, name: str, code: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable} -S\n{code}\n")
    path.chmod(0o755)


def test_an_engine_that_hangs_makes_the_host_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process that gives no answer: it is given up after the timeout, and nothing is said of containers."""
    monkeypatch.setattr(occupants, "PROC", tmp_path)
    program(tmp_path, "docker", "import time; time.sleep(60)")
    program(tmp_path, "pgrep", "raise SystemExit(1)")
    program(tmp_path, "ps", "print('systemd')")
    monkeypatch.setenv("PATH", str(tmp_path))
    started = time.monotonic()
    found = occupants.read(timeout_s=1)
    assert time.monotonic() - started < 20
    assert (found["engine"], found["containers"]) == ("silent", [])
    assert found["reasons"] == ["the Docker engine does not answer (no answer within 1 s)"]


def test_a_foreign_container_makes_the_host_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is not limited to containers with our label."""
    monkeypatch.setattr(occupants, "PROC", tmp_path)
    program(tmp_path, "docker", "import sys; print('' if '--filter' in sys.argv else 'db\\tpostgres:16')")
    program(tmp_path, "pgrep", "raise SystemExit(1)")
    program(tmp_path, "ps", "print('containerd-shim')")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = occupants.read()
    assert found["containers"] == [DB]
    assert found["reasons"] == ["1 container running: db (postgres:16)"]


@pytest.mark.parametrize(("num", "more"), [(5, ""), (6, " and 1 more"), (7, " and 2 more")])
def test_five_names_are_shown(num: int, more: str) -> None:
    assert occupants.shortened([str(n) for n in range(num)]) == "0, 1, 2, 3, 4" + more


@pytest.mark.parametrize(("number", "text"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks")])
def test_numbers_with_their_noun(number: int, text: str) -> None:
    assert occupants.counted(number, "rank") == text


def test_answers_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program prints, in bytes that may be no text; the ranks' language is not asked."""
    monkeypatch.setenv("LC_ALL", "de_DE")
    assert occupants.ask([str(tmp_path / "none")], 5)[:2] == (127, "")
    (tmp_path / "data").touch()
    assert occupants.ask([str(tmp_path / "data")], 5)[0] == 127
    assert occupants.ask([str(tmp_path / "data" / "x")], 5)[0] == 127
    script = "printf 'a\\377 '; echo $LC_ALL$LANGUAGE; echo ' no ' >&2; exit 3"
    assert occupants.ask(["sh", "-c", script], 5) == (3, "a\ufffd CC\n", "no")
    assert occupants.ask(["sleep", "60"], 0.01) == (124, "", "no answer within 0 s")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert occupants.ask(["sh", "-c", "exit 4"], 5)[0] == 4, "a login may have a short PATH"
    monkeypatch.delenv("PATH")
    assert occupants.ask(["true"], 5)[0] == 0


SAID: dict[str, Any] = {"docker": (0, "db\tpostgres:16\n", ""), "pgrep": (1, "", ""), "ps": (0, "init\n", "")}
GUARD = "7 python3 -I -S /x.pyc guard /runs/a/1"


@pytest.mark.parametrize(
    ("change", "engine", "containers", "guards", "reasons"),
    [
        ({}, "running", [DB], [], ["1 container running: db (postgres:16)"]),
        ({"docker": (1, "db\ti\n", "denied")}, "unknown", [], [], [
            "the Docker engine does not list its containers (denied)"
        ]),
        ({"docker": (127, "", "not found"), "ps": (0, "containerd-shim-runc-v2\nx containerd-shim\n", "")},
         "absent", [], [], ["1 container running while the engine does not answer"]),
        ({"docker": (127, "", ""), "ps": (1, "", "containerd-shim")}, "absent", [], [], []),
        ({"docker": (0, "", ""), "pgrep": (0, f"{GUARD}\n", "")}, "running", [], ["/runs/a/1"], [
            "ranks running: /runs/a/1"
        ]),
        ({"docker": (0, "", ""), "pgrep": (1, "", f"{GUARD}\n")}, "running", [], [], []),
    ],
)  # fmt: skip
def test_what_a_host_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    engine: str,
    containers: list[dict[str, str]],
    guards: list[str],
    reasons: list[str],
) -> None:
    asked: list[tuple[str, float]] = []

    def answer(argv: list[str], timeout_s: float) -> Any:
        asked.append((argv[0], timeout_s))
        return {**SAID, **change}[argv[0]]

    monkeypatch.setattr(occupants, "ask", answer)
    monkeypatch.setattr(occupants, "PROC", tmp_path)
    found = occupants.read(timeout_s=3.0)
    assert found == {"engine": engine, "containers": containers, "guards": guards, "reasons": reasons}
    assert asked == [("docker", 3.0), ("pgrep", 3.0), ("ps", 3.0)]


# -- attempts without a guard: real channels -----------------------------------------------------------

QUEUE: dict[str, Any] = {"time": 1.0, "host": "h1", "need": 1, "names": ["slot-0"]}


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with Line(tmp_path) as made:
        yield made


def attended(root: Path) -> list[str]:
    """The attempts below `root` that occupy this machine."""
    return [path for path in occupants.attended_attempts(occupants.PROC) if path.startswith(str(root))]


@pytest.mark.parametrize("stay", [False, True], ids=["last attempt", "a restart follows"])
def test_from_the_preparation_to_the_cleanup_and_to_the_next_attempt(tmp_path: Path, line: Line, *, stay: bool) -> None:
    place = str(tmp_path / "runs" / "night.0123456789abcdef" / "1.h1")
    line.ask("open", **RUN)
    line.ask("claim", shared=[])
    assert attended(tmp_path) == [], "a run that waits for slots does not keep the host busy"
    prepared(line, "true", tmp_path)
    assert attended(tmp_path) == [place]
    line.order("stop", reason="test", now=True)
    line.order("clean", stay=stay)
    line.until("cleaned")
    assert not Path(place).exists()
    assert attended(tmp_path) == ([place] if stay else [])
    line.hang_up()
    assert attended(tmp_path) == []


def test_a_run_in_the_queue_does_not_keep_the_host_busy(tmp_path: Path, line: Line) -> None:
    line.ask("open", **RUN)
    assert "ready" in line.ask("queue", **QUEUE)
    assert attended(tmp_path) == []
