"""Failures on the controller: its directories, where results go, sessions, and plans that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.remedies.job_rows import planned
from tests.remedies.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.remedies.scene import Scene

AREA = "The controller: directories, sessions, plans"


def home_is_a_file(scene: Scene) -> list[str]:
    scene.play.home.write_text("")
    return ["run", scene.job(), "-i", scene.inventory()]


def other_home(scene: Scene, _told: object) -> None:
    scene.play.home = scene.play.home.with_name("other")


def output(name: str, *files: str) -> Callable[[Scene], list[str]]:
    def make(scene: Scene) -> list[str]:
        for file in files:
            scene.play.write(file, "")
        return ["run", scene.job(), "-i", scene.inventory(), "--output", name]

    return make


def new_output(scene: Scene) -> list[str]:
    return ["run", "job.yml", "-i", "hosts.json", "--output", "new/results"]


def session_again(scene: Scene) -> list[str]:
    words = ["session", "-i", scene.inventory(), "-d"]
    assert scene(words).code == 0
    scene.undo.append(lambda: scene(["session", "-i", "hosts.json", "--end"]))
    return words


ROWS = (
    Row(
        "state directory that cannot be used",
        AREA,
        "ddp-play cannot keep runs and results in",
        "`export DDP_PLAY_HOME=DIRECTORY` names another directory",
        home_is_a_file,
        fix=other_home,
    ),
    Row(
        "output that is not empty",
        AREA,
        "--output out exists and is not empty",
        "give the path of a directory that does not exist yet",
        output("out", "out/x"),
        again=new_output,
    ),
    Row(
        "output that is a file",
        AREA,
        "--output out is a file",
        "give the path of a directory that does not exist yet",
        output("out", "out"),
        again=new_output,
    ),
    Row(
        "output below a file",
        AREA,
        "--output out/x cannot be made: ... is a file",
        "give the path of a directory that does not exist yet",
        output("out/x", "out"),
        again=new_output,
    ),
    Row(
        "second session of an inventory",
        AREA,
        "this inventory has a session already (pid",
        "`ddp-play session -i INVENTORY --end` ends it",
        session_again,
    ),
    Row(
        "session that there is not",
        AREA,
        "this inventory has no session",
        "ddp-play session -i INVENTORY starts one",
        lambda scene: ["session", "-i", scene.inventory(), "--end"],
        fix=lambda scene, _: session_again(scene),
    ),
    Row(
        "plan without facts",
        AREA,
        "no cached facts of localhost",
        "run ddp-play plan without --cached",
        lambda scene: [*planned()(scene), "--cached"],
        again=planned(),
    ),
    Row(
        "plan that is none",
        AREA,
        "hosts.json has no plan",
        "ddp-play plan PLAYBOOK -i INVENTORY --json prints one",
        lambda scene: ["plan", "--of", scene.inventory()],
        again=lambda scene: (
            scene.shell(f"ddp-play plan {scene.job()} -i hosts.json --json > plan.json"),
            ["plan", "--of", "plan.json"],
        )[1],
    ),
)
