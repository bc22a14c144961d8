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


def sourced(files: dict[str, str], **variables: Any) -> Callable[[Scene], list[str]]:
    """`run` of a job with a source."""

    def make(scene: Scene) -> list[str]:
        (scene.cwd / "src").mkdir()
        for name, text in files.items():
            scene.play.write(f"src/{name}", text)
        return ["run", scene.job(source="src", **variables), "-i", scene.inventory()]

    return make


def in_source(scene: Scene, told: re.Match[str]) -> None:
    """The message's command, in the directory of the source."""
    done = scene.shell(f"cd src; {told['command']}")
    assert done.code == 0, done.err


def other_interpreter(line: str) -> Callable[[Scene], list[str]]:
    def make(scene: Scene) -> list[str]:
        words = sourced({"train.sh": f"#!{line}\necho trained\n"}, command=["./train.sh"])(scene)
        (scene.cwd / "src" / "train.sh").chmod(0o755)
        return words

    return make


ROWS = (
    Row(
        "misspelt job variable",
        AREA,
        "unknown variable ddp_job_imgae",
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
    Row(
        "slots that are no number",
        AREA,
        "ddp_slots is 'two'; it must be a whole number",
        "correct ddp_slots of HOST in the inventory",
        planned(inventory={"ddp_slots": "two"}),
        code=69,
        fix=lambda scene, _: scene.edit("hosts.json", '"two"', "2"),
    ),
    Row(
        "no slots",
        AREA,
        "ddp_slots is 0; it must be at least 1",
        "correct ddp_slots of HOST in the inventory",
        planned(inventory={"ddp_slots": 0}),
        fix=lambda scene, _: scene.edit("hosts.json", '"ddp_slots": 0', '"ddp_slots": 1'),
    ),
    Row(
        "source that is not there",
        AREA,
        "ddp_job_source: ... is not a directory",
        "set ddp_job_source to the directory of the script",
        ran(source="srcs"),
        fix=set_to(source="."),
    ),
    Row(
        "source without files",
        AREA,
        "ddp_job_source: no files to copy in",
        "put the script there",
        sourced({}),
        fix=lambda scene, _: scene.play.write("src/train.py", ""),
    ),
    Row(
        "included file that is not there",
        AREA,
        "ddp_job_source_include: ... does not exist",
        "correct ddp_job_source_include: its paths count from ddp_job_source",
        sourced({"train.py": ""}, source_include=["src/train.py"]),
        fix=set_to(source_include=["train.py"]),
    ),
    Row(
        "script that is not in the source",
        AREA,
        "can't open file '...trian.py'",
        "correct ddp_job_command; ddp_job_source has to hold",
        sourced({"train.py": ""}, command=["{python}", "trian.py"]),
        2,
        fix=set_to(command=["{python}", "train.py"]),
    ),
    Row(
        "script that is not executable",
        AREA,
        "cannot start: ./train.sh is not executable",
        "`chmod +x FILE` in ddp_job_source",
        sourced({"train.sh": "#!/bin/sh\n"}, command=["./train.sh"]),
        126,
        fix=in_source,
    ),
    Row(
        "interpreter that is not there",
        AREA,
        "./train.sh needs /usr/bin/pythonn, which does not exist",
        "correct the first line (#!) of FILE",
        other_interpreter("/usr/bin/pythonn"),
        127,
        fix=lambda scene, _: scene.edit("src/train.sh", "/usr/bin/pythonn", "/bin/sh"),
    ),
    Row(
        "script with line ends of Windows",
        AREA,
        "needs /bin/sh, which does not exist: the line ends with a carriage return",
        "in ddp_job_source: `sed -i 's/\\r$//' FILE`",
        other_interpreter("/bin/sh\r"),
        127,
        fix=in_source,
    ),
    Row(
        "command that is not there",
        AREA,
        "cannot start: [Errno 2] No such file or directory: 'pythonn'",
        "check ddp_job_command",
        ran(command=["pythonn"]),
        127,
        fix=set_to(command=["true"]),
    ),
    Row(
        "working directory that is not there",
        AREA,
        "cannot start: the working directory /no/dir does not exist",
        "correct ddp_job_workdir",
        ran(workdir="/no/dir"),
        127,
        fix=set_to(workdir="/"),
    ),
    Row(
        "ranks without torch",
        AREA,
        "No module named 'torch'",
        "set ddp_python to one that has",
        ran(command=["{python}", "-c", "import torch"], ranks_per_host=1, inventory={"ddp_python": "/usr/bin/python3"}),
        1,
        fix=lambda scene, _: scene.edit("hosts.json", '"/usr/bin/python3"', '"{{ ansible_playbook_python }}"'),
    ),
    Row(
        "Python of the ranks that is not there",
        AREA,
        "/opt/py cannot be run (No such file or directory)",
        "set ddp_python for HOST in the inventory",
        planned(inventory={"ddp_python": "/opt/py"}),
        69,
        fix=lambda scene, _: scene.edit("hosts.json", '"/opt/py"', '"{{ ansible_playbook_python }}"'),
    ),
    Row(
        "shared directory that is not there",
        AREA,
        "shared directory /no/such: does not exist",
        "or unset ddp_shared_dir (-e ddp_shared_dir=)",
        planned(inventory={"ddp_shared_dir": "/no/such"}),
        69,
        again=lambda _: ["plan", "job.yml", "-i", "hosts.json", "-e", "ddp_shared_dir="],
    ),
    Row(
        "interface that is not there",
        AREA,
        "interface eth77 (ddp_interface) does not exist; it has ...",
        "correct ddp_interface of HOST in the inventory",
        planned(inventory={"ddp_interface": "eth77"}),
        69,
        fix=lambda scene, _: scene.edit("hosts.json", "eth77", "lo"),
    ),
)
