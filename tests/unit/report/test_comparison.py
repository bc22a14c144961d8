"""Comparison of runs: a changed setting and a changed host come first, noise does not count."""

from __future__ import annotations

from typing import Any

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.run_lookup import load
from ddp_play.report.comparison import Row, compare, differences, shown, verdict
from ddp_play.report.report_data import report_document
from tests.unit.build import host, hosts, plan

from .bundles import CREATED, ended_bundle, write_rows

JOB: dict[str, Any] = {"command": ["python", "train.py"], "timeout": 300.0, "backend": "auto"}


def document(name: str, rate: float = 2000.0, **fields: Any) -> dict[str, Any]:
    paths = ended_bundle(name, **fields)
    rows = [{"time": CREATED + at, "samples_per_s": rate, "loss": 1 / at} for at in range(3, 50)]
    write_rows(paths.metrics(0), rows)
    return report_document(load(paths))


def other_host(found: dict[str, Any]) -> dict[str, Any]:
    """The same run with h9 in place of h2."""
    made = plan(*hosts(1), host("h9", "10.0.0.9/16"))
    paths = ended_bundle("other", hosts=["h1", "h9"])
    write_json(paths.plan, made.to_json())
    other = report_document(load(paths))
    return {**found, "plan": other["plan"], "run": {**found["run"], "id": "other", "hosts": ["h1", "h9"]}}


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_a_changed_setting_and_a_changed_host_are_named_first() -> None:
    one = document("one")
    rows = compare([one, other_host(document("two"))], [JOB, {**JOB, "timeout": 60.0}])
    assert names(rows)[:2] == ["ddp_job_timeout", "hosts"]
    assert verdict(rows, ["one", "two"]).startswith("one and two differ in ddp_job_timeout, hosts, host h2, host h9")
    assert rows[0].values == ("300.0", "60.0")
    assert rows[1].values == ("h1, h2", "h1, h9")


def test_equal_runs_differ_in_nothing() -> None:
    rows = compare([document("one"), document("two")], [JOB, JOB])
    assert differences(rows) == []
    assert verdict(rows, ["one", "two"]) == "one and two had the same settings, hosts, versions and environment"


def test_a_slower_run_has_its_change_in_percent() -> None:
    rows = compare([document("one"), document("two", rate=1500.0)], [JOB, JOB])
    assert [(row.section, row.name, row.change) for row in differences(rows)] == [
        ("throughput", "samples_per_s, mean", -0.25)
    ]


def test_a_phase_that_took_a_moment_longer_does_not_count() -> None:
    rows = compare([document("one"), document("two", length=60.4)], [JOB, JOB])
    assert not [row.name for row in differences(rows) if row.section in ("phases", "time")]
    later = compare([document("one"), document("three", length=70.0)], [JOB, JOB])
    assert [row.name for row in differences(later)] == ["seconds in all", "seconds running"]


def test_noise_does_not_count() -> None:
    assert differences(compare([document("one"), document("two", rate=2010.0)], [JOB, JOB])) == []


def test_three_runs_and_versions_of_hosts() -> None:
    other = document("three", host_versions={"h1": {"python": "3.12"}, "h2": {"python": "3.12"}})
    rows = compare([document("one"), document("two"), other], [JOB, JOB, JOB])
    assert verdict(rows, ["one", "two", "three"]) == "one, two and three differ in hosts: engine, hosts: python"
    assert ("hosts: python", ("3.11.2", "3.11.2", "3.12")) in [(row.name, row.values) for row in differences(rows)]


def test_a_run_that_lacks_everything_can_be_compared() -> None:
    paths = ended_bundle("bare", ranks=[], hosts=[], host_versions={}, network={}, verdict={}, exit_code=None)
    paths.plan.unlink()
    rows = compare([document("one"), report_document(load(paths))], [JOB, {}])
    assert rows[0].differs


def test_values_for_a_table() -> None:
    assert [shown(value) for value in (None, 0.25, 7, "text")] == ["-", "0.2500", "7", "text"]


def test_a_backend_that_one_job_leaves_open_is_compared_as_it_was_planned() -> None:
    rows = compare([document("one"), document("two")], [JOB, {**JOB, "backend": "gloo"}])
    assert [row.name for row in differences(rows)] == ["ddp_job_backend"]
    assert ("plan: backend", ("gloo", "gloo")) in [(row.name, row.values) for row in rows]


def test_the_last_value_is_that_of_the_first_rank_in_its_last_attempt() -> None:
    one = document("one")
    (panel,) = [panel for panel in one["metrics"]["panels"] if panel["title"] == "loss"]
    panel["rows"] = [
        {**panel["rows"][0], "name": name, "attempt": attempt, "last": last}
        for name, attempt, last in (("rank 0", 1, 1.0), ("rank 1", 1, 2.0), ("rank 0", 2, 3.0), ("rank 1", 2, 4.0))
    ]
    rows = compare([one, one], [JOB, JOB])
    assert [row.values for row in rows if row.name == "loss, last"] == [(3.0, 3.0)]
