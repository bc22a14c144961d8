"""What `lab demo` asks before it creates anything, and the commands that remove it. tests/lab runs the demo itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ddp_play.cli import lab_demo
from ddp_play.cli.main import app
from ddp_play.errors import HostNotReady
from ddp_play.lab.preflight import as_one
from ddp_play.lab.spec import LabSpec, make_spec

if TYPE_CHECKING:
    from ddp_play.lab.requirements import RankImageNeeds

NO_TORCH = HostNotReady("pip's index offers torch==2.14.1 for cuda, not for cpu", hint="set PIP_EXTRA_INDEX_URL")


def refuse(*_: object, **__: object) -> Any:
    raise NO_TORCH


def lab_that_needs(needs: list[RankImageNeeds]) -> Any:
    """A `lab up` that creates nothing: it takes note of what the image needs, and refuses."""

    def up(spec: LabSpec, *, progress: object, rank_image: RankImageNeeds) -> None:
        needs.append(rank_image)
        raise as_one([*rank_image.problems, HostNotReady("too little memory")])

    return up


def test_a_torch_that_cannot_be_had_is_said_before_anything_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts were created first, and the remedy named options that the demo does not have."""
    needs: list[RankImageNeeds] = []
    monkeypatch.setattr(lab_demo, "has_local_image", lambda image: False)
    monkeypatch.setattr(lab_demo, "plan_image", refuse)
    monkeypatch.setattr(lab_demo, "up", lab_that_needs(needs))
    monkeypatch.setattr(lab_demo, "_report_what_exists", lambda wanted: None)
    done = CliRunner().invoke(app, ["lab", "demo", "--hosts", "3"])
    assert done.exit_code == 69
    assert [row.message for row in needs[0].problems] == [NO_TORCH.message]
    for words in (NO_TORCH.message, "ddp-play lab demo --slim --hosts 3", "too little memory"):
        assert words in done.stderr


@pytest.mark.parametrize(("slim", "size"), [(False, lab_demo.TORCH_IMAGE_MIB), (True, 0)])
def test_the_size_of_the_image_counts_on_each_host_and_here_if_it_is_new(
    slim: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = lab_demo.Demo(make_spec(LabSpec("demo", 2, ())), slim)
    monkeypatch.setattr(lab_demo, "plan_image", lambda request, *, progress: request)
    monkeypatch.setattr(lab_demo, "has_local_image", lambda image: False)
    planned, needs = lab_demo._image_needs(wanted)
    assert (planned is None, needs.problems, needs.host_mib, needs.here_mib) == (False, (), size, size)
    monkeypatch.setattr(lab_demo, "has_local_image", lambda image: True)
    planned, needs = lab_demo._image_needs(wanted)
    assert (planned, needs.problems, needs.host_mib, needs.here_mib) == (None, (), size, 0)


def test_without_an_engine_the_lab_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_demo, "has_local_image", refuse)
    wanted = lab_demo.Demo(make_spec(LabSpec("demo", 2, ())), slim=False)
    planned, needs = lab_demo._image_needs(wanted)
    assert (planned, needs.problems) == (None, ())


@pytest.mark.parametrize("slim", [False, True])
def test_the_commands_of_removal_name_all_that_the_demo_makes(slim: bool) -> None:
    wanted = lab_demo.Demo(make_spec(LabSpec("demo", 2, ())), slim)
    down, image, bases, *wheels = (row.command for row in wanted.removal)
    assert down.endswith("ddp-play lab down --name demo")
    assert image == f"docker image rm ddp-play-rank:{'slim' if slim else 'cpu'}"
    repositories = [tag.partition(":")[0] for tag in bases.removeprefix("docker image rm ").split()]
    assert repositories == ["ddp-play-rank-base", "ddp-play-lab-host", "ddp-play-lab-host", "ddp-play-lab-root"]
    assert [row.startswith("rm -rf ") and row.endswith("/wheelhouse") for row in wheels] == ([] if slim else [True])


@pytest.mark.parametrize("has_image", [False, True])
def test_after_a_failure_all_but_an_image_that_is_not_there_can_be_removed(
    has_image: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The images of hosts and the packages are there also where the build of the image has failed."""
    wanted = lab_demo.Demo(make_spec(LabSpec("demo", 2, ())), slim=False)
    hosts = [SimpleNamespace(state="running")]
    monkeypatch.setattr(lab_demo, "read_status", lambda name: SimpleNamespace(hosts=hosts))
    monkeypatch.setattr(lab_demo, "has_local_image", lambda image: has_image)
    lab_demo._report_what_exists(wanted)
    said = capsys.readouterr().err
    commands = [row.command for row in wanted.removal]
    assert [row in said for row in commands] == [True, has_image, True, True]
