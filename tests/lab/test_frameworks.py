"""The jobs and scripts of the how-tos of Accelerate, Lightning, Transformers and DeepSpeed, on two real hosts.

The files are those that the pages show.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ddp_play.planning.plan_document import ranks_by_host
from tests.content.doc_blocks import blocks
from tests.required import skip_or_fail

from .conftest import Lab, lab_of
from .framework_packages import HOST_PYTHON, INSTALL, lacking, stage
from .rank_jobs import ROOT, SHARED, document, fresh

SAID = re.compile(r"^rank (\d+) of (\d+): loss (\S+), sum of parameters (\S+)$", re.MULTILINE)
BROKEN_DATA = """
class Data(list):
    taken = 0

    def __getitem__(self, index):
        Data.taken += 1
        {fault}
        return super().__getitem__(index)


data = Data(data)
"""


@dataclass(frozen=True)
class Framework:
    """What the training of a page says and leaves, and where a fault goes into its script."""

    page: str
    says: str  # rank 0, when all went well
    resumes: str  # every rank that goes on from a checkpoint
    artifact: str
    line: str  # of the script, before which the fault comes
    late: str  # a condition that is true after the first checkpoint
    fault: str = "{fault}"


FRAMEWORKS = (
    Framework(
        "accelerate",
        says="rank 0 of 4",
        resumes="resumed after epoch 1",
        artifact="state/epoch-3/random_states_3.pkl",
        line="        accelerator.backward(loss)",
        late="epoch == 1",
    ),
    Framework(
        "lightning",
        says="`Trainer.fit` stopped: `max_epochs=3` reached.",
        resumes="Restored all states from the checkpoint at out/last.ckpt",
        artifact="out/last.ckpt",
        line="        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)",
        late="self.current_epoch == 1",
    ),
    Framework(
        "transformers",
        says="'train_runtime'",
        resumes="resumed from out/checkpoint-10",
        artifact="out/checkpoint-30/rng_state_3.pth",
        line="config = GPT2Config(",
        late="Data.taken == 120",
        fault=BROKEN_DATA,
    ),
    Framework(
        "deepspeed",
        says="deepspeed_shm_comm_op built successfully",
        resumes="resumed after step 10",
        artifact="out/global_step30/zero_pp_rank_3_mp_rank_00_optim_states.pt",
        line="    engine.backward(loss)",
        late="engine.global_steps == 15",
    ),
)
FOUR, TWO = {"h1": [0, 1], "h2": [2, 3]}, {"h1": [0], "h2": [1]}  # ranks by host
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.page)


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    """Two hosts with two slots each and the packages in the directory that they share."""
    if absent := lacking():
        skip_or_fail("FRAMEWORKS", f"{', '.join(absent)} not installed; {INSTALL}")
    with lab_of(lab_home, "frameworks", "--hosts", "2", "--slots", "2,2", "--no-docker") as two:
        stage(two)
        yield two


def write_files(page: str, folder: Path) -> None:
    """The files that a page shows."""
    for block in blocks(ROOT / "docs" / "how-to" / f"{page}.md"):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body, encoding="utf-8")


def break_rank_1(framework: Framework, folder: Path, fault: str) -> None:
    """Add a fault of rank 1 to the script of a page."""
    script = folder / "src" / "train.py"
    text = script.read_text(encoding="utf-8")
    assert text.count(f"\n{framework.line}") == 1
    indent = framework.line[: len(framework.line) - len(framework.line.lstrip())]
    added = framework.fault.format(fault=f'if __import__("os").environ["RANK"] == "1" and {fault}')
    script.write_text(text.replace(f"\n{framework.line}", f"\n{indent}{added}\n{framework.line}"), encoding="utf-8")


def run(lab: Lab, playbook: Path, **variables: object) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Run a job on both hosts; the name of the run, and how the command ended."""
    name = fresh(playbook.parent.name.replace("_", "-")[:20])
    given = json.dumps({"ddp_python": HOST_PYTHON, **{f"ddp_job_{key}": value for key, value in variables.items()}})
    done = lab.play("run", str(playbook), "-i", str(lab.inventory), "-e", given, "--name", name, timeout_s=700)
    return name, done


def logs(lab: Lab, name: str) -> list[str]:
    """The logs of a run, by rank."""
    found = (lab.home / "runs" / name / "logs").glob("rank-*.log")
    return [path.read_text(encoding="utf-8") for path in sorted(found)]


def assert_trained_together(lab: Lab, name: str, ranks: dict[str, list[int]]) -> None:
    """Both hosts had ranks, every rank knew all others, and all have equal parameters after different data."""
    plan = json.loads((lab.home / "runs" / name / "plan.json").read_text(encoding="utf-8"))
    assert {host: list(numbers) for host, numbers in ranks_by_host(plan).items()} == ranks
    world = sum(map(len, ranks.values()))
    said = [SAID.findall(log) for log in logs(lab, name)]
    assert [[row[:2] for row in rows] for rows in said] == [[(str(rank), str(world))] for rank in range(world)]
    assert len({row[2:] for rows in said for row in rows}) == 1, said


@each_framework
def test_training_over_two_hosts(lab: Lab, tmp_path: Path, framework: Framework) -> None:
    write_files(framework.page, tmp_path)
    name, done = run(lab, tmp_path / "train.yml")
    assert done.returncode == 0, done.stderr
    assert_trained_together(lab, name, FOUR)
    assert framework.says in logs(lab, name)[0]
    assert (lab.home / "runs" / name / "artifacts" / "h1" / framework.artifact).exists()
    for host in ("h1", "h2"):
        assert lab.on(host, f"find ~/.cache ~/.triton {SHARED}/.ddp-play -mindepth 1 2>/dev/null; true") == ""


def test_lightning_under_torchrun(lab: Lab, tmp_path: Path) -> None:
    write_files("lightning", tmp_path)
    name, done = run(lab, tmp_path / "train.yml", launcher="torchrun")
    assert done.returncode == 0, done.stderr
    assert_trained_together(lab, name, FOUR)


def test_a_test_of_accelerate_itself(lab: Lab, tmp_path: Path) -> None:
    write_files("accelerate", tmp_path)
    name, done = run(lab, tmp_path / "check.yml")
    assert done.returncode == 0, done.stderr
    first, second = logs(lab, name)
    assert all(
        "Num processes: 2\n" in log and "DistributedType.MULTI_CPU  Backend: gloo" in log for log in (first, second)
    )
    assert "Training yielded the same results on one CPU or distributed setup with batch split." in first


def test_accelerates_test_of_synchronization_with_four_ranks(lab: Lab, tmp_path: Path) -> None:
    write_files("accelerate", tmp_path)
    command = ["python", "-m", "accelerate.test_utils.scripts.test_sync"]
    name, done = run(lab, tmp_path / "check.yml", command=command, ranks_per_host=2)
    assert done.returncode == 0, done.stderr
    assert "**Test Distributed `no_sync` context manager**" in logs(lab, name)[0]


@pytest.mark.parametrize(("variables", "world"), [({}, "2"), ({"env": {"ACCELERATE_USE_CPU": "false"}}, "1")])
def test_accelerate_connects_ranks_on_cpus_only_if_told(
    lab: Lab, tmp_path: Path, variables: dict[str, object], world: str
) -> None:
    write_files("accelerate", tmp_path)
    command = ["python", "-c", "import accelerate; print(accelerate.Accelerator().num_processes)"]
    name, done = run(lab, tmp_path / "check.yml", command=command, **variables)
    assert done.returncode == 0, done.stderr
    assert [log.splitlines()[-1] for log in logs(lab, name)] == [world, world]


@each_framework
def test_a_failing_rank_is_named_with_its_reason(lab: Lab, tmp_path: Path, framework: Framework) -> None:
    write_files(framework.page, tmp_path)
    break_rank_1(framework, tmp_path, 'True: raise ValueError("a label is missing")')
    name, done = run(lab, tmp_path / "train.yml", ranks_per_host=1)
    assert done.returncode == 1, done.stderr
    verdict = document(lab, name)["verdict"]
    assert (verdict["kind"], verdict["rank"], verdict["host"]) == ("rank_failed", 1, "h2")
    assert verdict["error"] == "ValueError: a label is missing"
    assert verdict["error"] in done.stderr


@each_framework
def test_a_restart_goes_on_from_the_checkpoint(lab: Lab, tmp_path: Path, framework: Framework) -> None:
    write_files(framework.page, tmp_path)
    first = '__import__("os").environ["DDP_PLAY_ATTEMPT"] == "1"'
    break_rank_1(framework, tmp_path, f'{first} and {framework.late}: __import__("os")._exit(75)')
    name, done = run(lab, tmp_path / "train.yml", ranks_per_host=1, restarts=1, restart_exit_codes=[75])
    assert done.returncode == 0, done.stderr
    assert_trained_together(lab, name, TWO)
    assert framework.resumes in logs(lab, name)[0]
