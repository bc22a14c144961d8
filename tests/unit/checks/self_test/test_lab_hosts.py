"""Commands of defects on this machine, and labs that the self-test refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.checks.self_test import lab_hosts
from ddp_play.checks.self_test.defect import Defect
from ddp_play.checks.self_test.lab_hosts import LabHosts, NotDone, hosts_of, of_plan
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.lab.layout import LabPlan, plan_lab
from ddp_play.lab.spec import LabSpec, make_spec
from ddp_play.lab.state import lab_state


def planned(num_hosts: int, name: str = "mine") -> LabPlan:
    return plan_lab(make_spec(LabSpec(name, num_hosts, ())))


@pytest.fixture
def with_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")


def save(num_hosts: int) -> None:
    state = lab_state("mine")
    state.directory.mkdir(parents=True)
    state.save_plan(planned(num_hosts))


def test_a_command_gets_names_and_says_why_it_failed(tmp_path: Path) -> None:
    hosts = LabHosts(tmp_path, {"h1": str(tmp_path / "one")})
    hosts.run("touch {h1}")
    assert (tmp_path / "one").exists()
    with pytest.raises(NotDone, match="no iptables here"):
        hosts.run("echo no iptables here >&2; echo second >&2; exit 3")
    with pytest.raises(NotDone, match="exit code 4"):
        hosts.run("exit 4")


def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_hosts, "COMMAND_S", 0.2)
    with pytest.raises(NotDone, match=r"more than 0\.2 s"):
        LabHosts(tmp_path, {}).run("sleep 30")


def test_what_cannot_be_mended_is_left_to_the_next_check(tmp_path: Path) -> None:
    LabHosts(tmp_path, {}).mend(Defect(1, "slow", "true", "exit 1"))


def test_names_and_addresses_of_a_plan(tmp_path: Path) -> None:
    plan = planned(4)
    values = of_plan(tmp_path, plan).values
    assert values["h4"] == "ddp-play-mine-h4"
    assert values["a1"] == plan.hosts[0].addresses[0]
    assert values["a1"].startswith(values["net"] + ".")
    assert Path(values["files"], "packet_queue.py").is_file()


@pytest.mark.usefixtures("with_docker")
def test_a_lab_that_is_missing_or_too_small_is_refused_with_the_command() -> None:
    with pytest.raises(UsageError, match="no lab named mine") as missing:
        hosts_of("mine")
    assert missing.value.hint == "ddp-play lab up --name mine --hosts 4 --no-docker"
    save(3)
    with pytest.raises(UsageError, match="has 3 hosts; the self-test needs 4") as small:
        hosts_of("mine")
    assert "ddp-play lab down --name mine" in small.value.hint


@pytest.mark.usefixtures("with_docker")
def test_a_lab_of_four_hosts_is_taken() -> None:
    save(4)
    assert hosts_of("mine").inventory == lab_state("mine").inventory


def test_without_the_program_docker_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(HostNotReady, match="docker is not installed"):
        hosts_of("mine")
