"""Failures of runs among others: names, slots, ports, and bundles of runs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tests.remedies.rows import Row
from tests.remedies.scene import Scene
from tests.waiting import wait_until

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

AREA = "Runs, names, slots and ports"
RUN = ["run", "job.yml", "-i", "hosts.json"]


def ended(*names: str) -> Callable[[Scene], None]:
    """Runs that have ended."""

    def make(scene: Scene) -> None:
        scene.job()
        scene.inventory()
        for name in names:
            assert scene([*RUN, "--name", name]).code == 0

    return make


def after_runs(words: list[str], *names: str) -> Callable[[Scene], list[str]]:
    """These words when runs of these names have ended."""

    def make(scene: Scene) -> list[str]:
        ended(*names)(scene)
        return words

    return make


def beside(words: list[str], *, home: str = "", **variables: Any) -> Callable[[Scene], list[str]]:
    """These words while run `day` goes on, of this controller or of one with another home."""

    def make(scene: Scene) -> list[str]:
        scene.job(command=["sh", "-c", f"while [ ! -e {scene.cwd}/go ]; do sleep 0.1; done"], **variables)
        scene.inventory()
        assert scene([*RUN, "-d", "--name", "day"]).code == 0
        run = scene.play.home / "runs" / "day"
        scene.undo.append(lambda: scene(["stop", "day", "--now"]))
        wait_until(lambda: scene.play.document(run)["status"] == "running", timeout_s=60)
        scene.job(**variables)
        if home:
            before = scene.play.home
            scene.undo.append(lambda: setattr(scene.play, "home", before))
            scene.play.home = scene.play.home.with_name(home)
        return words

    return make


def let_it_end(scene: Scene, _told: object) -> None:
    (scene.cwd / "go").touch()


def attached(scene: Scene, told: re.Match[str]) -> None:
    """Watch the run to its end."""
    let_it_end(scene, told)
    assert scene.shell(told["command"]).code == 0


def waiting(scene: Scene) -> list[str]:
    """The same command with --wait; the other run ends meanwhile."""
    let_it_end(scene, None)
    return [*RUN, "--wait"]


def listening(scene: Scene) -> list[str]:
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()
    scene.undo.append(held.close)
    port = held.getsockname()[1]
    return ["run", scene.job(port_range=port), "-i", scene.inventory()]


def wider(scene: Scene, _told: object) -> None:
    scene.job(port_range="29500-29999")


def large_artifact(scene: Scene) -> list[str]:
    """A run of which one artifact exceeds the limit."""
    source = str(scene.play.write("source/train.py", "").parent)
    command = ["sh", "-c", "head -c 2M /dev/zero > weights.pt"]
    scene.job(source=source, command=command, artifacts_max_mib=1, ranks_per_host=1)
    scene.inventory()
    assert scene([*RUN, "--name", "night"]).code == 0
    return ["attach", "night"]


def refused_run(scene: Scene) -> list[str]:
    scene(["run", scene.job(backend="goo"), "-i", scene.inventory(), "--name", "night"])
    return ["logs", "night"]


ROWS = (
    Row(
        "name of an earlier run",
        AREA,
        "run night exists already",
        "`ddp-play results RUN` shows it; choose another --name",
        after_runs([*RUN, "--name", "night"], "night"),
        again=lambda _: [*RUN, "--name", "night-2"],
    ),
    Row(
        "name that is none",
        AREA,
        "'Night 1' cannot be a run name",
        "use lower-case letters, digits",
        lambda scene: ["run", scene.job(), "-i", scene.inventory(), "--name", "Night 1"],
        again=lambda _: [*RUN, "--name", "night-1"],
    ),
    Row(
        "misspelt run",
        AREA,
        "no run nigth under",
        "did you mean RUN?",
        after_runs(["results", "nigth"], "night"),
        again=lambda scene: ["results", scene.notes["told"]["RUN"]],
    ),
    Row(
        "beginning of several runs",
        AREA,
        "several runs begin with night: night-2, night-1",
        "give more of its id",
        after_runs(["results", "night"], "night-1", "night-2"),
        again=lambda _: ["results", "night-1"],
    ),
    Row(
        "command in a run that has ended",
        AREA,
        "run night has ended: succeeded",
        "`ddp-play logs RUN` shows its output",
        after_runs(["exec", "night", "--", "true"], "night"),
        again=lambda _: ["results", "night"],
    ),
    Row(
        "rank that there is not",
        AREA,
        "run night has ranks 0 to 1, not 7",
        "ranks 0 to VALUE,",
        after_runs(["logs", "night", "--rank", "7"], "night"),
        again=lambda scene: ["logs", "night", "--rank", scene.notes["told"]["VALUE"]],
    ),
    Row(
        "raw log of all ranks",
        AREA,
        "--raw prints one rank's log",
        "name it with --rank",
        after_runs(["logs", "night", "--raw"], "night"),
        again=lambda _: ["logs", "night", "--raw", "--rank", "0"],
    ),
    Row(
        "logs of a run without a plan",
        AREA,
        "run night has no plan, so it has no ranks",
        "ddp-play results RUN",
        refused_run,
        again=lambda scene: ["results", scene.notes["told"]["RUN"]],
        code_after=64,
        seen="ddp_job_backend",
    ),
    Row(
        "name of a run of another controller",
        AREA,
        "run day of ..., started ... is running",
        "choose another --name",
        beside([*RUN, "--name", "day"], home="home2", ranks_per_host=1),
        75,
        again=lambda _: [*RUN, "--name", "day-2"],
    ),
    Row(
        "slots that others hold",
        AREA,
        "0 of 2 slots free and 2 needed; held by run day of",
        "the same command with --wait waits for them; `ddp-play ps -i INVENTORY` lists who runs there",
        beside(RUN),
        75,
        again=waiting,
    ),
    Row(
        "bundle of a run that goes on",
        AREA,
        "kept day: a process works on it",
        "`ddp-play attach RUN`",
        beside(["rm", "day", "--yes"]),
        1,
        fix=attached,
    ),
    Row(
        "artifacts over the limit",
        AREA,
        "not all of it was collected",
        "`ddp-play attach RUN --artifacts-max-mib VALUE` collects what exceeds the limit",
        large_artifact,
        0,
    ),
    Row(
        "port that a program uses",
        AREA,
        "no free port between ...; in use: PORT by process PID (",
        "widen ddp_job_port_range",
        listening,
        75,
        fix=wider,
    ),
    Row(
        "port that another run has leased",
        AREA,
        "no free port between 29655 and 29655; 1 leased by run day of",
        "widen ddp_job_port_range",
        beside(RUN, ranks_per_host=1, port_range=29655),
        75,
        fix=lambda scene, _: scene.job(ranks_per_host=1, port_range="29600-29699"),
    ),
)
