"""Messages of `lab up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.cli.lab import _print_up_result
from ddp_play.lab.layout import plan_lab
from ddp_play.lab.lifecycle import UpResult
from ddp_play.lab.requirements import KernelLimit
from ddp_play.lab.spec import LabSpec, make_spec
from ddp_play.lab.state import lab_state

if TYPE_CHECKING:
    import pytest

LIMITS = (KernelLimit("fs.inotify.max_user_instances", 384, 4096), KernelLimit("kernel.keys.maxkeys", 100, 10_000))


def up(**limits: tuple[KernelLimit, ...]) -> UpResult:
    plan = plan_lab(make_spec(LabSpec("lab", 2, ())), taken=())
    known = {"limits_raised": (), "limits_refused": (), **limits}
    return UpResult(plan, lab_state("lab"), created=("h1", "h2"), started=(), **known)


def test_kernel_limits_that_stay_low_come_with_the_command_that_raises_them(capsys: pytest.CaptureFixture[str]) -> None:
    _print_up_result(up(limits_refused=LIMITS))
    said = " ".join(capsys.readouterr().err.split())
    assert "kernel limits are low for this many hosts" in said
    assert "sysctl -w fs.inotify.max_user_instances=4096 kernel.keys.maxkeys=10000" in said


def test_kernel_limits_that_were_raised_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _print_up_result(up(limits_raised=LIMITS[:1]))
    assert "raised kernel limits" in capsys.readouterr().err


def test_sufficient_limits_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _print_up_result(up())
    captured = capsys.readouterr()
    assert "limits" not in captured.err
    assert "lab lab is up: 2 hosts, 2 slots" in captured.out
