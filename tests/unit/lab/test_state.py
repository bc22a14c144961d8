"""The lab's files: inventory, keys, plan, lock."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
import yaml

from ddp_play.errors import Busy, UsageError
from ddp_play.lab.layout import plan_lab
from ddp_play.lab.spec import JobEngine, LabSpec, make_spec
from ddp_play.lab.state import inventory, lab_state, locked, make_keys, write_inventory

if TYPE_CHECKING:
    from pathlib import Path

PLAN = plan_lab(make_spec(LabSpec(name="t", num_hosts=2, slots=(2, 1), num_fabrics=2)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a home"  # a blank: options must survive it
    monkeypatch.setenv("DDP_PLAY_HOME", str(path))
    return path


def test_state_lies_under_ddp_play_home(home: Path) -> None:
    assert lab_state("t").directory == home / "lab" / "t"


def test_a_name_never_leaves_the_directory() -> None:
    with pytest.raises(UsageError):
        lab_state("../t")


def test_the_inventory_is_an_ordinary_one() -> None:
    state = lab_state("t")
    write_inventory(state, PLAN)
    ranks = yaml.safe_load(state.inventory.read_text())["all"]["children"]["ranks"]
    assert ranks["hosts"]["h1"] == {"ansible_host": "10.213.0.2", "ddp_slots": 2}
    assert ranks["vars"]["ansible_user"] == "ops"
    assert ranks["vars"]["ddp_shared_dir"] == "/srv/ddp-play-shared"
    words = shlex.split(ranks["vars"]["ansible_ssh_common_args"])
    assert f'UserKnownHostsFile="{state.known_hosts}"' in words
    assert "StrictHostKeyChecking=yes" in words
    assert yaml.safe_load(state.inventory.read_text()) == inventory(state, PLAN)


def test_an_inventory_for_slurm_has_its_groups() -> None:
    plan = plan_lab(make_spec(LabSpec(name="t", num_hosts=2, slots=(1,), job_engine=JobEngine.SLURM)))
    children = inventory(lab_state("t"), plan)["all"]["children"]
    assert {name: list(group["hosts"]) for name, group in children.items()} == {
        "ranks": ["h1", "h2"], "slurm_controller": ["h1"], "slurm_nodes": ["h1", "h2"],
    }  # fmt: skip
    assert list(inventory(lab_state("t"), PLAN)["all"]["children"]) == ["ranks"]


def test_a_plan_is_read_back_as_it_was_written() -> None:
    state = lab_state("t")
    assert state.load_plan() is None
    state.save_plan(PLAN)
    assert state.load_plan() == PLAN


def test_a_damaged_plan_is_no_plan() -> None:
    state = lab_state("t")
    state.save_plan(PLAN)
    state.plan_file.write_text('{"spec": 1}')
    assert state.load_plan() is None


def test_keys_are_made_once_and_every_address_is_known() -> None:
    state = lab_state("t")
    make_keys(state, PLAN)
    before = state.key.read_bytes(), state.known_hosts.read_text()
    make_keys(state, PLAN)
    assert (state.key.read_bytes(), state.known_hosts.read_text()) == before
    assert state.key.stat().st_mode & 0o077 == 0
    assert before[1].splitlines()[0].startswith("h1,10.213.0.2,10.213.1.2 ssh-ed25519 ")


def test_a_second_command_at_a_time_is_refused() -> None:
    state = lab_state("t")
    with locked(state), pytest.raises(Busy, match="lab t"), locked(state):
        pass
    with locked(state):
        pass
    assert list(state.directory.parent.iterdir()) == []
