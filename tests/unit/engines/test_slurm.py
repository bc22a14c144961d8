"""Engine slurm over commands that answer as Slurm 22.05 does. Real ones: tests/slurm."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.interface import Allocation, Phase, Wanted
from ddp_play.engines.route import Route
from ddp_play.engines.slurm import SlurmEngine
from ddp_play.engines.slurm_commands import Answer
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.job import parse_job
from tests.unit.engines.test_slurm_limits import CONFIG, PARTITIONS

if TYPE_CHECKING:
    from pathlib import Path

DOWN = Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
GONE = Answer(1, "", "slurm_load_jobs error: Invalid job id specified\n")
HEALTHY = {
    "sbatch --version": Answer(0, "slurm-wlm 22.05.8\n", ""),
    "sbatch --parsable": Answer(0, "17;small\n", ""),
    "scontrol show config": Answer(0, CONFIG, ""),
    "scontrol show partition": Answer(0, PARTITIONS, ""),
    "scancel 17": Answer(0, "", ""),
}
OURS = Allocation("slurm", "17", has_controller=True)


class Slurm:
    """Answers by the first words of a command, and records all commands."""

    def __init__(self, **_: Any) -> None:
        self.answers = dict(HEALTHY)
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *words: str) -> Answer:
        self.asked.append(words)
        return next(answer for start, answer in self.answers.items() if " ".join(words).startswith(start))


def wanted(directory: Path, **values: Any) -> Wanted:
    return Wanted("calm-otter", directory, parse_job({"command": ["true"], "hosts": 2, **values}))


def test_a_job_is_submitted_with_its_script(tmp_path: Path) -> None:
    slurm = Slurm()
    assert SlurmEngine(slurm).allocate(wanted(tmp_path)) == OURS
    submitted = slurm.asked[-1]
    assert submitted[:3] == ("sbatch", "--parsable", "--job-name=calm-otter")
    assert submitted[-1] == str(tmp_path / "engine" / "script.sh")
    assert "ddp_play.run.allocated_controller" in (tmp_path / "engine" / "script.sh").read_text()


def test_srun_is_asked_for_its_options_only_where_the_job_needs_one(tmp_path: Path) -> None:
    slurm = Slurm()
    SlurmEngine(slurm).allocate(wanted(tmp_path))
    assert ("srun", "--help") not in slurm.asked
    slurm.answers["srun --help"] = Answer(0, "      --container-image=IMAGE\n", "")
    assert SlurmEngine(slurm).allocate(wanted(tmp_path, runtime="pyxis", image="/x.sqsh")) == OURS
    assert ("srun", "--help") in slurm.asked


def test_a_hidden_partition_is_one_too(tmp_path: Path) -> None:
    """A user may submit to it; scontrol shows it with --all only."""
    slurm = Slurm()
    slurm.answers["scontrol show partition"] = Answer(0, "", "")
    slurm.answers = {"scontrol show partition --oneliner --all": HEALTHY["scontrol show partition"], **slurm.answers}
    assert SlurmEngine(slurm).allocate(wanted(tmp_path, slurm={"partition": "main"})) == OURS


def test_what_never_fits_is_not_submitted(tmp_path: Path) -> None:
    slurm = Slurm()
    with pytest.raises(UsageError, match="wants 9 nodes"):
        SlurmEngine(slurm).allocate(wanted(tmp_path, hosts=9))
    assert not any("--parsable" in words for words in slurm.asked)


def test_slurms_refusal_is_told_in_its_words(tmp_path: Path) -> None:
    slurm = Slurm()
    words = "sbatch: error: Invalid account\nsbatch: error: Batch job submission failed: Invalid account or partition\n"
    slurm.answers["sbatch --parsable"] = Answer(1, "", words)
    with pytest.raises(UsageError, match="Slurm refuses the job: Invalid account; Batch job submission failed"):
        SlurmEngine(slurm).allocate(wanted(tmp_path))


LOST = Answer(1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n")


@pytest.mark.parametrize(("lost", "wanted_error"), [(LOST, HostNotReady), (KeyboardInterrupt(), KeyboardInterrupt)])
def test_a_job_whose_submission_got_no_answer_is_cancelled(
    tmp_path: Path, lost: Answer | KeyboardInterrupt, wanted_error: type[BaseException]
) -> None:
    slurm = Slurm()
    ours = tmp_path / "engine" / "script.sh"
    slurm.answers["squeue"] = Answer(0, f"16 /elsewhere/calm-otter/engine/script.sh\n17 {ours}\n", "")

    def ask(*words: str) -> Answer:
        answer = slurm(*words)
        if words[:2] != ("sbatch", "--parsable"):
            return answer
        if isinstance(lost, KeyboardInterrupt):
            raise lost
        return lost

    with pytest.raises(wanted_error):
        SlurmEngine(ask).allocate(wanted(tmp_path))
    assert slurm.asked[-1] == ("scancel", "17")
    assert ("scancel", "16") not in slurm.asked


def test_a_machine_without_slurm_does_not_know_how_far_a_job_is() -> None:
    def ask(*words: str) -> Answer:
        raise HostNotReady(f"{words[0]} is not installed")

    assert SlurmEngine(ask).state(OURS).phase is Phase.UNKNOWN


def test_an_accounting_that_does_not_answer_is_no_end_of_the_job() -> None:
    slurm = Slurm()
    slurm.answers = {"scontrol": GONE, "sacct": Answer(1, "", "sacct: error: Problem talking to the database\n")}
    assert SlurmEngine(slurm).state(OURS).phase is Phase.UNKNOWN


def test_a_silent_controller_is_no_end_of_the_job(tmp_path: Path) -> None:
    slurm = Slurm()
    slurm.answers = {"sbatch --version": HEALTHY["sbatch --version"], "scontrol": DOWN, "scancel": DOWN}
    engine = SlurmEngine(slurm)
    assert engine.state(OURS).phase is Phase.UNKNOWN
    assert "Unable to contact slurm controller" in engine.state(OURS).text
    with pytest.raises(HostNotReady, match="job 17 was not cancelled"):
        engine.cancel(OURS)
    with pytest.raises(HostNotReady, match="Slurm does not answer"):
        engine.allocate(wanted(tmp_path))


def test_a_waiting_job_has_its_place() -> None:
    slurm = Slurm()
    row = "JobId=17 JobState=PENDING Reason=Priority StartTime=Unknown Partition=main,small\n"
    slurm.answers = {"scontrol": Answer(0, row, ""), "squeue": Answer(0, "3 main\n17 main\n", "")}
    assert "number 2 of 2 pending in main" in SlurmEngine(slurm).state(OURS).text


@pytest.mark.parametrize(
    ("accounting", "code"),
    [(Answer(0, "TIMEOUT|0:0\n", ""), 124), (Answer(1, "", "Slurm accounting storage is disabled\n"), 70)],
)
def test_a_job_that_the_controller_forgot(accounting: Answer, code: int) -> None:
    slurm = Slurm()
    slurm.answers = {"scontrol": GONE, "sacct": accounting}
    state = SlurmEngine(slurm).state(OURS)
    assert state.phase is Phase.ENDED
    assert state.ending is not None
    assert state.ending.exit_code == code


def test_cancelling_a_job_that_is_gone_is_no_error() -> None:
    slurm = Slurm()
    slurm.answers = {"scancel": GONE}
    SlurmEngine(slurm).cancel(OURS)


def test_a_channel_that_is_closed_leaves_its_step(tmp_path: Path) -> None:
    """srun's second process ends the step when the first one is gone, so both go at once and without a word."""
    told = tmp_path / "told"
    second = f"trap 'touch {told}' TERM EXIT; while [ -d /proc/$PPID ]; do sleep 0.05; done; touch {told}"
    client = subprocess.Popen(["/bin/sh", "-c", f'(exec /bin/sh -c "{second}") & wait'], start_new_session=True)
    SlurmEngine(Slurm()).end(client)
    assert client.returncode == -9
    assert not told.exists()


def test_a_persons_command_gets_a_terminal_if_there_is_one() -> None:
    engine, route = SlurmEngine(Slurm()), Route("n1", ("srun", "-w", "n1", "/bin/sh", "-c"), "run me")
    assert engine.interactive(route, "top", terminal=True) == ["srun", "--pty", "-w", "n1", "/bin/sh", "-c", "top"]
    assert engine.interactive(route, "top", terminal=False) == [*route.argv, "top"]
    assert engine.carries(route)
    assert (engine.fresh(route), engine.usable(route)) == (route, route)
    assert not engine.no_connection(route, 1)


RUNNING = "JobId=17 JobState=RUNNING NodeList={nodes} BatchHost=n1"


@pytest.mark.parametrize(("nodes", "lost"), [("n[1-2]", False), ("n2", True)])
def test_a_job_that_goes_on_without_the_node_of_its_script_has_lost_it(nodes: str, lost: bool) -> None:
    """With --no-kill Slurm only removes the node, and the job runs on until its time limit."""
    slurm = Slurm()
    slurm.answers["scontrol show job 17"] = Answer(0, RUNNING.format(nodes=nodes), "")
    slurm.answers["scontrol show hostnames"] = Answer(0, "n1\nn2\n" if nodes == "n[1-2]" else "n2\n", "")
    state = SlurmEngine(slurm).state(OURS)
    assert (state.phase, state.ending is not None) == (Phase.GRANTED, lost)
    if state.ending is not None:
        assert (state.ending.exit_code, state.text) == (69, "lost node n1, on which its controller was")


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_job_with_restarts_comes_back(tmp_path: Path, restarts: int) -> None:
    allocation = SlurmEngine(Slurm()).allocate(wanted(tmp_path, restarts=restarts))
    assert allocation.requeues is bool(restarts)
    assert Allocation.from_json(allocation.to_json()) == allocation
