"""Messages of `lab up`, and the commands that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.cli.lab import _print_status, _print_up_result, next_commands
from ddp_play.lab.layout import plan_lab
from ddp_play.lab.lifecycle import UpResult
from ddp_play.lab.requirements import KernelLimit
from ddp_play.lab.spec import JobEngine, LabSpec, make_spec
from ddp_play.lab.state import lab_state
from ddp_play.lab.status import HostStatus, LabStatus

LIMITS = (KernelLimit("fs.inotify.max_user_instances", 384, 4096),)


def up(
    name: str = "lab",
    *,
    engine: bool = True,
    limits: tuple[KernelLimit, ...] = (),
    job_engine: JobEngine = JobEngine.SSH,
) -> UpResult:
    plan = plan_lab(make_spec(LabSpec(name, 2, (), engine=engine, job_engine=job_engine)), taken=())
    return UpResult(plan, lab_state(name), created=("h1", "h2"), started=(), limits_raised=limits)


def test_kernel_limits_that_were_raised_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _print_up_result(up(limits=LIMITS))
    assert "raised kernel limits for this many hosts: fs.inotify.max_user_instances=4096" in capsys.readouterr().err


def test_addresses_are_whole_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = tuple(f"fd00:0:0:{number}::1234:5678" for number in range(6))
    _print_status(LabStatus("lab", "up", "/x", "/x/hosts.yml", (HostStatus("h1", addresses, 1, "running", ssh=True),)))
    assert " ".join(addresses) in capsys.readouterr().out


def test_sufficient_limits_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _print_up_result(up())
    captured = capsys.readouterr()
    assert "limits" not in captured.err
    assert "lab lab is up: 2 hosts, 2 slots" in captured.out


def test_commands_are_printed_whole_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = up()
    _print_up_result(result)
    printed = capsys.readouterr().out.splitlines()
    assert [f"  {row.command}" for row in next_commands(result)] == [line for line in printed if " ddp-play " in line]


@pytest.mark.parametrize("engine", [True, False])
def test_commands_name_the_lab_its_inventory_and_the_state_directory(
    engine: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "my home"))
    commands = [row.command for row in next_commands(up("mine", engine=engine))]
    assert all(command.startswith(f"DDP_PLAY_HOME='{tmp_path}/my home' ddp-play ") for command in commands)
    assert any("lab down --name mine" in command for command in commands)
    assert any(f"-i '{tmp_path}/my home/lab/mine/inventory/hosts.yml'" in command for command in commands)
    assert any("image load" in command for command in commands) is engine


@pytest.mark.parametrize(
    ("engine", "job_engine", "first"),
    [
        (True, JobEngine.SSH, ["image load", "run", "lab ssh", "lab down"]),
        (False, JobEngine.SSH, ["provision", "lab ssh", "lab down"]),
        (True, JobEngine.SLURM, ["image load", "run", "provision", "lab ssh", "lab ssh", "lab down"]),
        (False, JobEngine.SLURM, ["provision", "lab ssh", "lab ssh", "lab down"]),
    ],
)
def test_commands_are_those_for_the_hosts_that_were_asked_for(
    engine: bool, job_engine: JobEngine, first: list[str]
) -> None:
    """For Slurm on hosts without Docker, the first command configured Docker."""
    commands = [row.command for row in next_commands(up(engine=engine, job_engine=job_engine))]
    words = [command.partition("ddp-play ")[2] for command in commands]
    assert [row[: len(start)] for row, start in zip(words, first, strict=True)] == first
    assert any("docker" in command for command in commands) is (not engine and job_engine is JobEngine.SSH)
    assert any("--tags slurm" in command for command in commands) is (job_engine is JobEngine.SLURM)
    assert any(command.endswith("h1 'srun --nodes=2 hostname'") for command in commands) is (
        job_engine is JobEngine.SLURM
    )
