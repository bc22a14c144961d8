"""Findings of load in the ranks' torch: results, speed, time on the processors, collectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.check_levels import judge
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import FULL, Fleet
from ddp_play.checks.job_terms import JobTerms
from ddp_play.checks.torch_findings import collectives, load
from tests.unit.build import gpus
from tests.unit.checks.fleets import ASKED, fleet

HOSTS = ("h1", "h2", "h3")
START = {"part": "start", "torch": "2.13.0"}


def cpu(speed: float = 80.0, share: float = 0.9, **more: Any) -> dict[str, Any]:
    row = {"part": "multiply", "device": "cpu", "gflops": speed, "gflops_per_cpu": speed, "cpu_share": share}
    return {**row, "right": True, **more}


def gpu(at: int, speed: float = 700.0) -> dict[str, Any]:
    row = {"part": "multiply", "device": f"cuda:{at}", "gflops": speed, "gflops_per_cpu": 0.0, "cpu_share": 0.1}
    return {**row, "right": True}


def answer(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"parts": [START, *parts], "before": {}, "after": {}, "seconds": 3.0, **more}


WELL: dict[str, Any] = {
    "groups": [{"hosts": list(HOSTS), "backend": "gloo", "problem": "", "sizes": [
        {"bytes": 1 << 24, "busbw_gb_s": 0.512, "wrong": 0, "seconds": 0.1}]}],
    "least_busbw": 0.0, "blamed": "nobody", "blamed_hosts": [], "reason": "",
}  # fmt: skip


def loaded(document: dict[str, Any] | None = None, **answers: list[dict[str, Any]]) -> Fleet:
    """Three hosts with torch that are well, but for these answers; `document`: other results of the collectives."""
    torch = {**WELL, **(document or {}), "hosts": {**{name: [answer(cpu())] for name in HOSTS}, **answers}}
    hosts = tuple(replace(host, facts=replace(host.known, rank_torch="2.13.0")) for host in fleet().hosts)
    return replace(fleet(), hosts=hosts, torch=torch)


def bad(found: Fleet) -> list[Finding]:
    return [row for row in (*load(found), *collectives(found)) if row.status is not Status.OK]


def test_hosts_that_are_well_pass_with_their_figures() -> None:
    rows = {row.check: row.value for row in (*load(loaded()), *collectives(loaded())) if row.status is Status.OK}
    assert rows["results under load"] == "as calculated"
    assert rows["speed under load"] == "median 80.0 GFLOP/s"
    assert rows["time on processors"] == "median 90%"
    assert rows["collectives"] == "all_reduce with gloo on 3 hosts, busbw in GB/s: 16 MiB 0.512"
    assert bad(loaded()) == []


def test_a_slow_host_is_a_warning_with_what_held_it_back() -> None:
    counters = {"before": {"times_held_back": 3, "times_too_hot": 7, "stolen_s": 1.0},
                "after": {"times_held_back": 8, "times_too_hot": 9, "stolen_s": 3.5}}  # fmt: skip
    slow = answer(cpu(40.0), **counters)
    (found,) = bad(loaded(h2=[slow, slow]))
    assert (found.check, found.status, found.where) == ("speed under load", Status.WARN, ("h2",))
    assert found.value.startswith(
        "40.0 GFLOP/s; a CPU quota held it back 10 times; processors were too hot 4 times; the h"
    )
    assert all((found.why, found.command, found.limit, found.source, found.others, found.look))


def test_a_host_that_was_slow_once_only_is_well() -> None:
    assert bad(loaded(h2=[answer(cpu(40.0)), answer(cpu(79.0))])) == []


def test_a_host_without_time_on_its_processors() -> None:
    (found,) = bad(loaded(h3=[answer(cpu(share=0.4))]))
    assert (found.check, found.where) == ("time on processors", ("h3",))
    assert (found.value, found.others) == ("40%", "90%")


def test_wrong_results_fail() -> None:
    (found,) = bad(loaded(h1=[answer(cpu(right=False))]))
    assert (found.check, found.status, found.where) == ("results under load", Status.FAIL, ("h1",))


def test_a_slow_gpu_of_a_host_and_a_host_with_slow_gpus() -> None:
    well = [answer(*(gpu(at) for at in range(4)))]
    one = [answer(gpu(0), gpu(1), gpu(2), gpu(3, 500.0))]
    found = bad(loaded(h1=well, h2=well, h3=one))
    assert [(row.check, row.where) for row in found] == [("speed under load", ("h3",)), ("gpus under load", ("h3",))]
    assert found[1].value == "cuda:3 500 GFLOP/s"


@pytest.mark.parametrize(
    ("blamed", "hosts", "status", "says"),
    [
        ("hosts", ("h2",), Status.FAIL, "every group with it is not well"),
        ("cannot tell", ("h1", "h2"), Status.WARN, "cannot be told which of h1, h2"),
        ("only together", HOSTS, Status.WARN, "no single host is at fault"),
        ("the test or the network", HOSTS, Status.WARN, "the test or the network is at fault"),
    ],
)
def test_collectives_name_a_host_only_where_it_is_certain(
    blamed: str, hosts: tuple[str, ...], status: Status, says: str
) -> None:
    groups = [{"hosts": list(HOSTS), "backend": "gloo", "sizes": [], "problem": "h1: Timed out"}]
    (found,) = bad(loaded({"groups": groups, "blamed": blamed, "blamed_hosts": list(hosts)}))
    assert (found.check, found.status, found.where) == ("collectives", status, hosts)
    assert says in found.value
    assert "Timed out" in found.value
    assert all((found.why, found.command, found.limit, found.source, found.look))


def unchecked(found: Fleet) -> list[tuple[str, tuple[str, ...], str, bool]]:
    assert all(row.status is Status.UNCHECKED for row in bad(found))
    return [(row.check, row.where, row.value, row.broken) for row in bad(found)]


def test_without_torch_it_is_not_run_and_nothing_is_broken() -> None:
    rows = unchecked(fleet())
    assert {row[0] for row in rows} == {"results under load", "speed under load", "time on processors", "collectives"}
    assert all(value.startswith("no torch in") and not broken for _, _, value, broken in rows)


def in_image(torch: str) -> Fleet:
    """Hosts whose Python has no torch, and a job whose containers have this version."""
    answer = {"program": {"value": {"parts": [{"part": "versions", "python": "3.11.2", "torch": torch}]}}}
    hosts = tuple(replace(host, facts=replace(host.known, rank_torch=""), container=answer) for host in loaded().hosts)
    return replace(loaded(), hosts=hosts, terms=JobTerms(in_containers=True, image="train:1"))


def test_the_torch_that_counts_is_that_of_the_jobs_image() -> None:
    assert bad(in_image("2.13.0")) == []
    assert {(value, broken) for _, _, value, broken in unchecked(in_image(""))} == {("no torch in the image", False)}


def test_torch_that_does_not_load_is_broken_there_and_says_nothing_of_the_others() -> None:
    broken = {"parts": [], "problem": "ImportError: libtorch_cpu.so"}
    rows = unchecked(loaded(h2=[broken]))
    assert {(where, value, is_broken) for _, where, value, is_broken in rows} == {
        (("h2",), "ImportError: libtorch_cpu.so", True)
    }


def test_an_end_of_the_time_is_not_run() -> None:
    rows = unchecked(loaded({"blamed": "not run", "blamed_hosts": [], "reason": "no time left of --within"}))
    assert {(check, value, broken) for check, _, value, broken in rows} == {
        ("collectives", "no time left of --within", True)
    }


def test_a_host_that_somebody_uses_is_not_run_with_who_that_is() -> None:
    well = loaded()
    readings = {**well.hosts[1].readings, "living_runs": {"value": ["run night of kim"], "took_s": 0.1}}
    hosts = (well.hosts[0], replace(well.hosts[1], readings=readings), well.hosts[2])
    document = {**WELL, "hosts": {name: [answer(cpu())] for name in ("h1", "h3")}}
    why = "no load where somebody is: run night of kim"
    for torch in (document, None):
        found = [row for row in unchecked(replace(well, hosts=hosts, torch=torch)) if "h2" in row[1]]
        names = ("results under load", "speed under load", "time on processors", "collectives")
        assert found == [(name, ("h2",), why, True) for name in names]


def test_the_full_level_has_these_findings() -> None:
    checks = {row.check for row in judge(loaded(), FULL, ASKED)}
    assert {"speed under load", "time on processors", "results under load", "collectives"} <= checks


def on_gpus(num_gpus: int, terms: JobTerms | None = None, mig: str = "Disabled", /, **answers: Any) -> Fleet:
    """Three hosts with so many GPUs, on which the load has run but for these answers."""
    rows = {f"GPU-{at}": {"index": str(at), "mig.mode.current": mig} for at in range(num_gpus)}
    made = loaded(**{name: [answer(*(gpu(at) for at in range(num_gpus)))] for name in HOSTS} | answers)
    hosts = tuple(
        replace(host, facts=replace(host.known, gpus=gpus(num_gpus)),
                readings={**host.readings, "gpu_states": {"value": rows}}) for host in made.hosts
    )  # fmt: skip
    return replace(made, hosts=hosts, terms=terms or made.terms)


def test_a_host_on_which_torch_leaves_gpus_out_never_passes() -> None:
    assert bad(on_gpus(4)) == []
    for few, seen in (([answer(*(gpu(at) for at in range(3)))], 3), ([answer(cpu())], 0)):
        rows = [row for row in bad(on_gpus(4, h2=few)) if row.where == ("h2",)]
        assert {row.check for row in rows} == {"results under load", "speed under load", "gpus under load"}
        assert {(row.status, row.broken) for row in rows} == {(Status.UNCHECKED, True)}
        assert {row.value.split(":")[0] for row in rows} == {f"torch has used {seen} of the host's 4 GPUs"}
    ended = [answer(gpu(0), problem="no end within 12 s")]
    assert {row.value for row in bad(on_gpus(4, h2=ended))} == {"no end within 12 s"}
    none = [answer(cpu())]
    rows = bad(on_gpus(4, h1=none, h2=none, h3=none))
    assert {row.where for row in rows} == {(name,) for name in HOSTS}


def test_gpus_that_a_job_leaves_out_and_divided_ones_are_not_counted() -> None:
    one = {name: [answer(gpu(0))] for name in HOSTS}
    none = {name: [answer(cpu())] for name in HOSTS}
    assert bad(on_gpus(4, JobTerms(least_files=512, uses_gpus=True), **one)) != []
    assert bad(on_gpus(4, JobTerms(least_files=512, uses_gpus=True, chooses_gpus=True), **one)) == []
    assert bad(on_gpus(4, JobTerms(least_files=512), **none)) == []
    assert bad(on_gpus(4, None, "Enabled", **one)) == []
