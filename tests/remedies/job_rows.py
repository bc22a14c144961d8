"""Failures of a job's file: names, values, placeholders, commands, the source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.remedies.rows import Row

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

    from tests.remedies.scene import Scene

AREA = "Job"


def planned(*, inventory: dict[str, Any] | None = None, **variables: Any) -> Callable[[Scene], list[str]]:
    """`plan` of a job with these variables on this machine."""
    return lambda scene: ["plan", scene.job(**variables), "-i", scene.inventory(**(inventory or {}))]


def ran(*, inventory: dict[str, Any] | None = None, **variables: Any) -> Callable[[Scene], list[str]]:
    """`run` of a job with these variables on this machine."""
    return lambda scene: ["run", scene.job(**variables), "-i", scene.inventory(**(inventory or {}))]


def set_to(**variables: Any) -> Callable[[Scene, re.Match[str]], None]:
    """Write the job again with these values; None removes a variable."""

    def fix(scene: Scene, _told: re.Match[str]) -> None:
        path = scene.cwd / "job.yml"
        plays = json.loads(path.read_text(encoding="utf-8"))
        values = plays[0]["roles"][0]["vars"]
        for name, value in variables.items():
            values[f"ddp_job_{name}"] = value
        plays[0]["roles"][0]["vars"] = {name: value for name, value in values.items() if value is not None}
        path.write_text(json.dumps(plays), encoding="utf-8")

    return fix


def suggested(name: str, wrong: str) -> Callable[[Scene, re.Match[str]], None]:
    """Put what the message suggests in the place of the wrong word."""
    return lambda scene, told: scene.edit(name, wrong, told["VALUE"])


def broken_playbook(scene: Scene) -> list[str]:
    scene.play.write(
        "job.yml", "- hosts: ranks\n  roles:\n    - role: ddp.play.ddp_job\n      vars: {ddp_job_command: [ls]\n"
    )
    return ["plan", "job.yml", "-i", scene.inventory()]


def close_the_brace(scene: Scene, told: re.Match[str]) -> None:
    assert told["FILE"] == str(scene.cwd / "job.yml")
    scene.edit("job.yml", "[ls]", "[ls]}")


def other_role(scene: Scene) -> list[str]:
    name = scene.job()
    scene.edit(name, "ddp.play.ddp_job", "ddp.play.ddp_jobs")
    return ["plan", name, "-i", scene.inventory()]


def unquoted(scene: Scene) -> list[str]:
    scene.play.write(
        "job.yml",
        "- hosts: ranks\n  gather_facts: false\n  roles:\n    - role: ddp.play.ddp_job\n"
        "      vars:\n        ddp_job_command: [echo, {rank}]\n",
    )
    return ["plan", "job.yml", "-i", scene.inventory()]


ROWS = (
    Row(
        "misspelt job variable",
        AREA,
        "job.yml: unknown variable ddp_job_imgae",
        "did you mean VALUE?",
        planned(imgae="x"),
        fix=lambda scene, told: scene.edit("job.yml", '"ddp_job_imgae": "x"', f'"{told["VALUE"]}": ""'),
    ),
    Row(
        "broken YAML of a playbook",
        AREA,
        "YAML parsing failed",
        "correct FILE at line ...",
        broken_playbook,
        fix=close_the_brace,
    ),
    Row(
        "misspelt role",
        AREA,
        "the role 'ddp.play.ddp_jobs' was not found",
        "the role of a job is VALUE: correct its name",
        other_role,
        fix=suggested("job.yml", "ddp.play.ddp_jobs"),
    ),
    Row(
        "placeholder without quotes",
        AREA,
        "{rank} without quotes is a mapping in YAML",
        'quote it, "{rank}"',
        unquoted,
        fix=lambda scene, _: scene.edit("job.yml", "{rank}", '"{rank}"'),
    ),
    Row(
        "misspelt placeholder",
        AREA,
        "there is no placeholder {rnak}",
        "did you mean {VALUE}?",
        planned(command=["echo", "{rnak}"]),
        fix=suggested("job.yml", "rnak"),
    ),
    Row(
        "empty command",
        AREA,
        "ddp_job_command is empty",
        "give the command of one rank, for instance [python, train.py]",
        planned(command=[]),
        fix=set_to(command=["python", "train.py"]),
    ),
    Row(
        "docker without an image",
        AREA,
        "ddp_job_runtime is docker and ddp_job_image is not set",
        "ansible-doc -t role ddp.play.ddp_job",
        planned(runtime="docker"),
        fix=set_to(runtime=None),
    ),
    Row(
        "misspelt backend",
        AREA,
        "ddp_job_backend: is one of auto, gloo, ... (it is 'goo')",
        "is one of auto, gloo, nccl, mpi",
        planned(backend="goo"),
        fix=set_to(backend="gloo"),
    ),
    Row(
        "duration in words",
        AREA,
        "'a while' is not a duration",
        "write seconds or 90s, 15m, 2h, 1d",
        planned(grace="a while"),
        fix=set_to(grace="90s"),
    ),
    Row(
        "nccl without a GPU",
        AREA,
        "backend nccl needs a GPU on every host; none usable on localhost",
        "set ddp_job_backend to VALUE",
        planned(backend="nccl"),
        fix=set_to(backend="auto"),
    ),
    Row(
        "more hosts than the play has",
        AREA,
        "ddp_job_hosts requires 4 hosts, the play has 1",
        "set ddp_job_hosts to VALUE or fewer",
        planned(hosts=4),
        fix=lambda scene, told: set_to(hosts=int(told["VALUE"]))(scene, told),
    ),
    Row(
        "network that is none",
        AREA,
        "ddp_job_network: '10.0.0' is not a network",
        "write it like 10.0.0.0/24",
        planned(network="10.0.0"),
        fix=set_to(network="10.0.0.0/24"),
    ),
    Row(
        "mount without a target",
        AREA,
        "ddp_job_mounts: 'data' is not source:target",
        "source:target or source:target:ro",
        planned(mounts=["data"]),
        fix=set_to(mounts=["/data:/data"]),
    ),
    Row(
        "rank as argument under torchrun",
        AREA,
        "ddp_job_command holds {rank}, and under torchrun",
        "set ddp_job_launcher to ranks",
        planned(launcher="torchrun", command=["echo", "{rank}"]),
        fix=set_to(launcher="ranks"),
    ),
    Row(
        "bare key that the caller does not have",
        AREA,
        "ddp_job_env has the bare key TOKEN_X",
        "`export NAME=...`, or give it a value",
        planned(env={"TOKEN_X": None}),
    ),
)
