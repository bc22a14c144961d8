"""Which hosts a job uses, which it leaves out and why, and the leases of its ranks."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import pytest

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.host_facts import Problem, Quarantine
from ddp_play.planning.host_selection import choose_hosts, release
from ddp_play.planning.planner import make_plan
from ddp_play.planning.rank_context import Caller
from tests.unit.build import gpus, host, hosts, job, plan

SECOND = Problem("h9", "unreachable", "no route to host", "is it up? ssh h9")


@pytest.mark.parametrize(
    ("wanted", "used", "left_out"),
    [
        ("all", ["h1", "h2", "h3", "h4"], []),
        (4, ["h1", "h2", "h3", "h4"], []),
        (2, ["h1", "h2"], ["h3", "h4"]),
        ("2..3", ["h1", "h2", "h3"], ["h4"]),
        ("2..9", ["h1", "h2", "h3", "h4"], []),
        ("1..", ["h1", "h2", "h3", "h4"], []),
    ],
)
def test_minimum_and_maximum(wanted: Any, used: list[str], left_out: list[str]) -> None:
    made = plan(*hosts(4), hosts=wanted)
    assert [item.name for item in made.hosts] == used
    assert [name for name, _ in made.left_out] == left_out


@pytest.mark.parametrize(("wanted", "left_out"), [("2..", ["h9"]), ("2..2", ["h9", "h3"]), (3, ["h9"])])
def test_problem_hosts_are_left_out_when_enough_remain(wanted: Any, left_out: list[str]) -> None:
    made = plan(*hosts(3), problems=(SECOND,), hosts=wanted)
    assert [name for name, _ in made.left_out] == left_out
    assert dict(made.left_out)["h9"] == "no route to host"


def test_problem_hosts_end_the_plan_when_too_few_remain() -> None:
    other = Problem("h8", "credentials", "Permission denied (publickey)", "which key does it want?")
    with pytest.raises(HostNotReady) as caught:
        plan(*hosts(2), problems=(SECOND, other))
    assert caught.value.message.splitlines() == [
        "h9: no route to host",
        "h8: Permission denied (publickey)",
    ]
    remedies = caught.value.hint.splitlines()
    assert remedies[:2] == ["h9: is it up? ssh h9", "h8: which key does it want?"]
    assert remedies[2].startswith("2 of 4 hosts are usable and ddp_job_hosts requires 4; ")
    assert "leave the others out with --limit" in remedies[2]
    assert "on Slurm, where the nodes are chosen: --slurm exclude=NAMES" in remedies[2], "--limit is refused there"
    assert caught.value.hosts == ("h9", "h8")


def test_without_any_usable_host_nobody_is_told_to_leave_hosts_out() -> None:
    with pytest.raises(HostNotReady) as caught:
        choose_hosts(job(), (), (SECOND,), 0)
    assert caught.value.hint == "is it up? ssh h9"


DRAINED = "the host takes no new runs: reboot by kim"


@pytest.mark.parametrize(
    ("wanted", "drained", "spares", "used", "left_out"),
    [
        ("1..", ["h1"], [], ["h2", "h3"], {"h1": DRAINED}),
        (2, ["h1"], [], ["h2", "h3"], {"h1": DRAINED}),
        (1, ["h1"], [], ["h2"], {"h1": DRAINED, "h3": "more hosts than ddp_job_hosts allows"}),
        (2, ["h1"], ["h3"], ["h2", "h3"], {"h1": DRAINED}),
        (1, ["h3"], ["h3"], ["h1"], {"h2": "more hosts than ddp_job_hosts allows", "h3": DRAINED}),
        ("all", ["h1"], [], ["h1", "h2", "h3"], {}),
        (3, ["h1"], ["h3"], ["h1", "h2", "h3"], {}),
        (1, ["h1", "h2", "h3"], [], ["h1"], dict.fromkeys(("h2", "h3"), DRAINED)),
    ],
)
def test_drained_hosts_are_used_only_where_the_others_are_too_few(
    wanted: Any, drained: list[str], spares: list[str], used: list[str], left_out: dict[str, str]
) -> None:
    """A run on one of them is refused there, or waits for it."""
    facts = [dataclasses.replace(row, drained=DRAINED if row.name in drained else "") for row in hosts(3)]
    made = plan(*facts, hosts=wanted, spares=spares)
    assert [item.name for item in made.hosts] == used
    assert dict(made.left_out) == left_out


FAILED = "in quarantine since 2026-01-02 03:04 UTC (kim from login1): mtu: 1400"


def with_marks(quarantined: list[str], drained: list[str]) -> list[Any]:
    rows = []
    for row in hosts(3):
        why = FAILED if row.name in quarantined else ""
        whole = f"the host takes no new runs: {why}" if why else DRAINED if row.name in drained else ""
        rows.append(dataclasses.replace(row, quarantine=Quarantine(why, level="quick") if why else None, drained=whole))
    return rows


@pytest.mark.parametrize(
    ("wanted", "quarantined", "drained", "spares", "used"),
    [
        ("1..", ["h1"], [], [], ["h2", "h3"]),
        (2, ["h1"], [], ["h3"], ["h2", "h3"]),
        ("all", ["h2"], [], ["h3"], ["h1", "h3"]),
        (2, ["h1"], ["h2"], [], ["h2", "h3"]),  # it waits for h2, and never for h1
    ],
)
def test_a_host_in_quarantine_is_left_out_and_said(
    wanted: Any, quarantined: list[str], drained: list[str], spares: list[str], used: list[str]
) -> None:
    made = plan(*with_marks(quarantined, drained), hosts=wanted, spares=spares)
    assert [item.name for item in made.hosts] == used
    assert FAILED in dict(made.left_out)[quarantined[0]]


def test_too_few_hosts_outside_quarantine_are_refused_with_the_remedy() -> None:
    with pytest.raises(HostNotReady, match="in quarantine since") as caught:
        plan(*with_marks(["h1", "h2"], []), hosts=2)
    assert caught.value.hosts == ("h1", "h2")
    assert "ddp-play check -i INVENTORY --release" in caught.value.hint
    assert "1 of 3 hosts are usable and ddp_job_hosts requires 2" in caught.value.hint


@pytest.mark.parametrize(
    ("quarantine", "uid", "command"),
    [
        (Quarantine(FAILED, level="quick"), 1000, "--release -b"),
        (Quarantine(FAILED, level="quick"), 0, "-i INVENTORY --release"),
        (Quarantine(FAILED, level="full"), 1000, "-i INVENTORY --level full --release -b"),
        (Quarantine(FAILED, level="full; reboot"), 1000, "-i INVENTORY --release -b"),
        (Quarantine(FAILED, level="quick", own=True), 1000, "--release"),
        (Quarantine(FAILED), 1000, "ansible HOSTS -i INVENTORY -b -m ddp.play.host_quarantine -a state=released"),
    ],
)
def test_who_may_end_a_quarantine_and_how(quarantine: Quarantine, uid: int, command: str) -> None:
    row = host("h1")
    row = dataclasses.replace(row, quarantine=quarantine, user=dataclasses.replace(row.user, uid=uid))
    assert release(row).endswith(command)


def test_a_mark_of_an_own_list_without_a_check_is_removed_from_that_list() -> None:
    """Such as one that cannot be read: root's list, which the command names otherwise, has nothing of it."""
    row = dataclasses.replace(host("h1"), quarantine=Quarantine(FAILED, own=True), state_dir="/home/kim/my state")
    command = release(row)
    assert command.startswith("ansible HOSTS -i INVENTORY -m ddp.play.host_quarantine -a ")
    assert shlex.split(shlex.split(command)[-1]) == ["state=released", "directory=/home/kim/my state"]


def test_a_restart_uses_a_host_in_quarantine_where_the_others_are_too_few() -> None:
    used, _ = choose_hosts(job(hosts=2), tuple(with_marks(["h1", "h2"], [])), (), 2)
    assert len(used) == 2


def test_too_few_hosts_in_the_play() -> None:
    with pytest.raises(UsageError, match="ddp_job_hosts requires 4 hosts, the play has 2"):
        plan(*hosts(2), hosts=4)


def test_no_hosts_at_all() -> None:
    with pytest.raises(UsageError, match="the play has no hosts"):
        make_plan(job(), (), (), Caller({}))


@pytest.mark.parametrize(
    ("wanted", "spares", "missing", "used", "left_out"),
    [
        ("all", ["h4"], (), ["h1", "h2", "h3"], {"h4": "unused spare"}),
        (4, ["h4"], (), ["h1", "h2", "h3", "h4"], {}),
        ("2..", ["h1"], (), ["h2", "h3", "h4"], {"h1": "unused spare"}),
        ("all", ["h4"], (SECOND,), ["h1", "h2", "h3", "h4"], {"h9": "no route to host"}),
        ("3..", ["h4"], (SECOND,), ["h1", "h2", "h3"], {"h9": "no route to host", "h4": "unused spare"}),
        ("all", ["h9"], (SECOND,), ["h1", "h2", "h3", "h4"], {"h9": "no route to host"}),
    ],
)
def test_spares_stand_in_only_where_too_few_others_are(
    wanted: Any, spares: list[str], missing: Any, used: list[str], left_out: dict[str, str]
) -> None:
    made = plan(*hosts(4), hosts=wanted, spares=spares, problems=missing)
    assert [host.name for host in made.hosts] == used
    assert dict(made.left_out) == left_out


def test_slots_are_the_hosts_and_a_gpu_is_its_own() -> None:
    """One machine under two names has the slots of both; LOCAL_RANK says which GPU a rank uses."""
    alike = plan(*hosts(2, slots=2))
    assert [host.slots for host in alike.hosts] == [("slot-0", "slot-1")] * 2
    one = plan(host("a", machine="m", slots=2), host("b", machine="m", slots=1))
    assert [host.slots for host in one.hosts] == [("slot-0", "slot-1", "slot-2")] * 2
    some = plan(host("g", gpus=gpus(8)), ranks_per_host=2)
    assert some.hosts[0].slots == ("gpu-GPU-0", "gpu-GPU-1")
    assert plan(host("g", gpus=gpus(8)), gpus="none").hosts[0].slots == ("slot-0",)
    assert plan(host(), ranks_per_host=4).hosts[0].slots == ("slot-0",), "who asks for more than there is has all of it"
