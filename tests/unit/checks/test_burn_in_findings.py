"""Findings of a burn-in: bands over time, what fell, what was held back, and results that were not the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.burn_in_findings import over_time, rounds, same_bits
from ddp_play.checks.check_levels import LEVELS, judge
from ddp_play.checks.finding import Finding, Status, exit_code
from ddp_play.checks.fleet import BURN_IN, Fleet
from ddp_play.checks.quarantine import Circumstances, Stays, why_it_stays
from ddp_play.planning.host_facts import Quarantine
from tests.unit.build import gpus
from tests.unit.checks import test_burn_in
from tests.unit.checks.fleets import ASKED, fleet

HOSTS = ("h1", "h2", "h3")
TOTAL = 9


def host_row(**changed: Any) -> dict[str, Any]:
    """A host that was well in all rounds."""
    figures = {"speed of processors": [80.0 + at % 3 / 10 for at in range(TOTAL)], "time on processors": [0.9] * TOTAL,
               "speed of gpus": [None] * TOTAL}  # fmt: skip
    row = {
        "figures": {**figures, **changed.pop("figures", {})},
        "counted": {name: [0.0] * TOTAL for name in ("times_held_back", "times_too_hot", "stolen_s")},
        "failed": len(changed.get("problems", ())), "gpus": [0] * TOTAL, "problems": [], "wrong": [],
        "digests": {"EPYC, AVX2": {"ab": 900}}, "repeats": 900, "cpus": 4,
    }  # fmt: skip
    return {**row, **changed}


def burned(document: dict[str, Any] | None = None, **changed: dict[str, Any]) -> Fleet:
    """Three hosts with torch; `changed`: rows of some of them."""
    rows = {name: host_row(**changed.get(name, {})) for name in HOSTS}
    whole = {"rounds": TOTAL, "began_s": [20.0 * at for at in range(TOTAL)], "hosts": rows, "ended": "",
             "group": {"busbw": [0.5] * TOTAL, "problems": []}, **(document or {})}  # fmt: skip
    hosts = tuple(replace(host, facts=replace(host.known, rank_torch="2.13.0")) for host in fleet().hosts)
    return replace(fleet(), hosts=hosts, burn_in=whole)


def found(checked: Fleet) -> list[Finding]:
    return [*rounds(checked), *over_time(checked), *same_bits(checked)]


def bad(checked: Fleet) -> list[Finding]:
    return [row for row in found(checked) if row.status is not Status.OK]


@pytest.mark.parametrize("num_rounds", [0, TOTAL])
def test_a_host_that_somebody_uses_has_no_burn_in(num_rounds: int) -> None:
    well = burned()
    rows = {name: host_row() for name in ("h1", "h3")}
    readings = {"living_runs": {"value": ["run night of kim"], "took_s": 0.1}}
    hosts = (well.hosts[0], replace(well.hosts[1], readings=readings), well.hosts[2])
    checked = replace(well, hosts=hosts, burn_in={**(well.burn_in or {}), "hosts": rows, "rounds": num_rounds})
    (row,) = [row for row in rounds(checked) if row.where == ("h2",)]
    assert (row.status, row.broken) == (Status.UNCHECKED, True)
    assert row.value == "no load where somebody is: run night of kim"


def test_hosts_that_were_well_pass_with_their_bands() -> None:
    values = {row.check: row.value for row in found(burned())}
    assert bad(burned()) == []
    assert values["burn-in"] == "9 rounds, the last began after 2 min 40 s"
    assert (
        values["speed over time"] == "first 80.0 GFLOP/s, last 80.2 GFLOP/s, slowest 80.0 GFLOP/s, median 80.1 GFLOP/s"
    )
    assert values["processors over time"] == "first 90%, last 90%, slowest 90%, median 90%"
    assert values["repeated results"] == "equal bits in 900 repeats on 4 CPUs"
    assert values["results of equal hosts"] == "bits ab"
    assert values["collectives over time"].startswith("first 0.5, last 0.5, slowest 0.5 GB/s")
    assert {row.check for row in judge(burned(), BURN_IN, ASKED)} >= set(values)
    assert len(LEVELS[BURN_IN]) > len(LEVELS["full"])


DEFECTS = (
    ({"figures": {"speed of processors": [80.0, 80.0, 79.0, 76.0, 73.0, 70.0, 66.0, 64.0, 63.0]}},
     "speed over time", Status.WARN, "the last third has 80% of the first: first 80.0 GFLOP/s, last 63.0 GFLOP/s"),
    ({"figures": {"speed of processors": [80.0, 80.0, 80.0, 80.0, 40.0, 80.0, 80.0, 80.0, 80.0]}},
     "speed over time", Status.WARN, "slow in 1 of 9 rounds (round 5): first 80.0 GFLOP/s"),
    ({"figures": {"time on processors": [0.9, 0.9, 0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 0.9]}},
     "processors over time", Status.WARN, "slow in 2 of 9 rounds (round 5, 6): first 90%"),
    ({"counted": {"times_too_hot": [0.0] * 5 + [3.0] * 4, "times_held_back": [0.0] * TOTAL, "stolen_s": [0.0] * TOTAL}},
     "throttling", Status.WARN, "processors were too hot in 4 of 9 rounds"),
    ({"wrong": [[4, "cpu", "1 of 100 repeats have other bits on CPU 3"]]},
     "repeated results", Status.FAIL, "cpu: 1 of 100 repeats have other bits on CPU 3 (round 4)"),
    ({"digests": {"EPYC, AVX2": {"cd": 900}}}, "results of equal hosts", Status.FAIL, "bits cd"),
    ({"problems": [[3, "RuntimeError: out of memory"]]},
     "programs over time", Status.WARN, "failed in 1 of 9 rounds, first in round 3: RuntimeError: out of memory"),
)  # fmt: skip


@pytest.mark.parametrize(("changed", "check", "status", "value"), DEFECTS)
def test_a_defect_is_one_finding_of_its_host(changed: dict[str, Any], check: str, status: Status, value: str) -> None:
    (row,) = bad(burned(h2=changed))
    assert (row.check, row.status, row.where) == (check, status, ("h2",))
    assert row.value.startswith(value)
    assert all((row.why, row.command, row.limit, row.source, row.look))


def test_a_host_of_which_a_gpu_vanishes_fails() -> None:
    used = [8, 8, None, 8, 7, 7, 7, 7, 7]
    (row,) = bad(burned(h2={"gpus": used, "problems": [[3, "multiply: CUDA error"]]}))
    assert (row.check, row.status, row.where) == ("programs over time", Status.FAIL, ("h2",))
    assert row.value == "7 of 8 GPUs in round 5, fewer in 5 of 8 rounds"
    assert all((row.why, row.command, row.limit, row.source, row.look))


def test_a_host_on_which_torch_never_sees_a_gpu_is_not_run() -> None:
    checked = burned(h1={"gpus": [2] * TOTAL}, h2={"gpus": [1] * TOTAL}, h3={"gpus": [0] * TOTAL})
    hosts = tuple(replace(host, facts=replace(host.known, gpus=gpus(2))) for host in checked.hosts)
    rows = {row.where: row for row in bad(replace(checked, hosts=hosts))}
    assert {(name, row.status, row.broken) for (name,), row in rows.items()} == {
        (name, Status.UNCHECKED, True) for name in ("h2", "h3")
    }
    assert rows["h3",].value.startswith("torch has used 0 of the host's 2 GPUs")


def test_hosts_with_other_parts_are_not_compared() -> None:
    assert bad(burned(h2={"digests": {"Xeon, AVX512": {"cd": 900}}})) == []


def test_of_two_equal_hosts_that_differ_none_is_blamed() -> None:
    other = {"digests": {"Xeon, AVX512": {"ab": 900}}}
    (row,) = bad(burned(h2={"digests": {"EPYC, AVX2": {"cd": 900}}}, h3=other))
    assert (row.status, row.where) == (Status.WARN, ("h1", "h2"))


def test_few_rounds_have_no_band() -> None:
    few = {"figures": {"speed of processors": [80.0, 40.0], "time on processors": [0.9, 0.1]}}
    assert bad(burned(h2=few)) == []


def test_a_group_that_was_not_well() -> None:
    group = {"busbw": [0.5, None], "problems": [[2, "h2: Timed out"]]}
    (row,) = bad(burned({"group": group}))
    assert (row.check, row.status, row.where) == ("collectives over time", Status.WARN, HOSTS)
    assert row.value == "not well in 1 of 9 rounds, first in round 2: h2: Timed out"


def test_one_that_was_interrupted_never_passes_and_what_it_found_counts() -> None:
    rows = bad(burned({"ended": "interrupted"}, h2={"wrong": [[4, "cpu", "other bits"]]}))
    assert [(row.check, row.status) for row in rows if row.where != ("h2",)] == [("burn-in", Status.UNCHECKED)] * 2
    assert ("repeated results", Status.FAIL) in [(row.check, row.status) for row in rows]
    assert exit_code(bad(burned({"ended": "interrupted"}))) == 69


def test_without_a_round_it_is_not_run() -> None:
    for checked in (burned({"rounds": 0, "began_s": [], "hosts": {}}), replace(burned(), burn_in=None)):
        rows = bad(checked)
        assert {(row.check, row.status, row.broken) for row in rows} == {("burn-in", Status.UNCHECKED, True)}
    without = replace(fleet(), burn_in=None)
    assert {row.broken for row in bad(without)} == {False}, "there is no torch"


def test_a_host_without_torch_takes_no_part() -> None:
    checked = burned()
    hosts = (*checked.hosts[:2], replace(checked.hosts[2], facts=replace(checked.hosts[2].known, rank_torch="")))
    rows = {name: row for name, row in (checked.burn_in or {})["hosts"].items() if name != "h3"}
    (row,) = bad(replace(checked, hosts=hosts, burn_in={**(checked.burn_in or {}), "hosts": rows}))
    assert (row.check, row.where, row.broken) == ("burn-in", ("h3",), False)


def test_a_host_whose_program_fails_in_each_round_is_not_run() -> None:
    problems = [[number, "ImportError: libtorch.so"] for number in range(1, TOTAL + 1)]
    nothing = {name: [None] * TOTAL for name in host_row()["figures"]}
    rows = bad(burned(h2={"problems": problems, "figures": nothing, "digests": {}, "repeats": 0}))
    assert {(row.check, row.status, row.broken) for row in rows} == {
        ("programs over time", Status.UNCHECKED, True), ("repeated results", Status.UNCHECKED, True),
    }  # fmt: skip


def lost_in_round(number: int, *gone: str) -> Fleet:
    """Findings of hosts of which these are lost in a round of a burn-in of more than an hour."""
    talk = test_burn_in.Talk(4000.0, gone=dict.fromkeys(gone, number))
    checked = burned(test_burn_in.burned(talk)[0])
    return replace(checked, hosts=tuple(replace(host, lost=talk.lost.get(host.name, "")) for host in checked.hosts))


def stays(checked: Fleet, name: str, *checks: str) -> Stays | None:
    """Why a host that failed these checks in a burn-in is not released after this one."""
    mark = Quarantine("in quarantine: bits", False, BURN_IN, checks, 3)
    known = next(replace(host.known, quarantine=mark) for host in checked.hosts if host.name == name)
    return why_it_stays(known, found(checked), Circumstances(BURN_IN, 3, True))


def test_a_host_that_is_lost_early_does_not_pass_and_stays_in_quarantine() -> None:
    checked = lost_in_round(2, "h3")
    total = (checked.burn_in or {})["rounds"]
    assert total > 100
    rows = {row.check: row for row in found(checked) if row.where == ("h3",)}
    row = rows["burn-in"]
    assert (row.status, row.broken) == (Status.UNCHECKED, True)
    assert row.value == f"the connection ended: it was well in 1 of {total} rounds"
    assert rows["programs over time"].value.startswith(f"failed in {total - 1} of {total} rounds, first in round 2")
    assert rows["repeated results"].status is Status.OK, "of the one round that it had"
    reason = stays(checked, "h3", "repeated results")
    assert reason is not None
    assert reason.why == f"it must pass: burn-in ({row.value})"
    assert stays(checked, "h2", "repeated results") is None
    assert [row.where for row in found(checked) if row.check == "burn-in" and row.status is Status.OK] == [("h1", "h2")]


def test_where_all_hosts_are_lost_none_passes() -> None:
    rows = [row for row in found(lost_in_round(3, *HOSTS)) if row.check == "burn-in"]
    assert [(row.status, row.broken) for row in rows] == [(Status.UNCHECKED, True)] * 3


def test_an_interrupted_burn_in_releases_nobody_and_a_host_without_torch_owes_none() -> None:
    assert stays(burned({"ended": "interrupted"}), "h1", "repeated results") is not None
    assert stays(replace(fleet(), burn_in=None), "h1") is None
    assert stays(burned(), "h1", "repeated results") is None
