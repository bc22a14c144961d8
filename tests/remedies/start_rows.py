"""Failures of hosts' settings, the source, and the start of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.remedies.job_rows import planned, ran, set_to
from tests.remedies.rows import Row

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

    from tests.remedies.scene import Scene

AREA = "Source and start of ranks"


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
