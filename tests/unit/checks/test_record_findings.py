"""Hosts against their own records: what is worse, what has expired, and who gets a record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddp_play.checks.check_levels import judge
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.host_records import Record, record_of
from ddp_play.checks.record_findings import COMPARED, EXPIRED, NONE, UNKNOWN, compare, findings, new_records
from ddp_play.planning.host_facts import Gpu
from tests.unit.build import ethernet

from .fleets import ASKED, fleet
from .matrices import with_matrix

MADE = ("full", "2030-01-02T03:04:05Z")
GPUS = tuple(Gpu(number, f"GPU-{number}", "NVIDIA H200", 143771) for number in range(8))


def known(checked: Fleet) -> dict[str, Record]:
    return {row.machine: row for host in checked.reached for row in (record_of(host, checked, *MADE),)}


def found(checked: Fleet, records: dict[str, Record]) -> list[Finding]:
    return list(findings(checked, compare(checked, records)))


def test_without_any_record_nothing_is_said() -> None:
    checked = with_matrix(fleet(2))
    assert {row.state for row in compare(checked, {})} == {NONE}
    assert found(checked, {}) == []


def test_the_same_figures_pass_and_say_against_what() -> None:
    checked = with_matrix(fleet(2))
    rows = found(checked, known(checked))
    assert [(row.check, row.status) for row in rows] == [("own record", Status.OK)] * 2
    assert rows[0].value == "6 figures as on 2030-01-02"
    (row, _) = found(with_matrix(fleet(2), h1_h2={"mbps": 950.0}), known(checked))
    assert row.value == "6 figures as on 2030-01-02; farthest: rate: h2 950 Mb/s, recorded 1,000 (95%)"


def test_a_rate_far_below_its_record_warns_with_direction_limit_and_command() -> None:
    records = known(with_matrix(fleet(2)))
    (row, other) = found(with_matrix(fleet(2), h1_h2={"mbps": 800.0}), records)
    assert (row.status, row.where, row.directions) == (Status.WARN, ("h1",), (("h1", "h2"),))
    assert row.value == "rate: h2 800 Mb/s, recorded 1,000 (80%)"
    assert row.limit == "850 Mb/s"
    assert "record of 2030-01-02" in row.source
    assert "--record" in row.command
    assert other.status is Status.OK
    (row, _) = found(with_matrix(fleet(2), h1_h2={"mbps": 860.0}), records)
    assert row.status is Status.OK


def test_a_rate_that_a_cpu_limited_is_not_compared() -> None:
    records = known(with_matrix(fleet(2)))
    checked = with_matrix(fleet(2), h1_h2={"mbps": 100.0, "busy": 0.9})
    assert [row.status for row in found(checked, records)] == [Status.OK, Status.OK]
    (first, _) = compare(checked, records)
    assert "rate: h2" not in {row.figure for row in first.figures}


def test_what_the_network_matrix_says_is_not_said_again() -> None:
    records = known(with_matrix(fleet(3)))
    verdict = {"hosts": ["h1"], "evidence": [{"source": "85% of its own record"}]}
    checked = with_matrix(fleet(3), h1_h2={"mbps": 300.0}, h1_h3={"mbps": 300.0}, verdicts=(verdict,))
    assert {row.status for row in found(checked, records)} == {Status.OK}


def test_a_missing_gpu_and_memory_warn() -> None:
    def with_gpus(number: int) -> Fleet:
        return fleet(1, h1={"facts.gpus": GPUS[:number]})

    (host,) = compare(with_gpus(7), known(with_gpus(8)))
    assert (host.state, host.reason, host.gone) == (EXPIRED, "GPUs: 1 gone", ("GPUs GPU-7",))
    (gone, expired) = found(with_gpus(7), known(with_gpus(8)))
    assert (gone.status, gone.value) == (Status.WARN, "gone since 2030-01-02: GPUs GPU-7")
    assert all((gone.why, gone.command, gone.limit, gone.source, gone.look))
    assert expired.status is Status.UNCHECKED
    (row,) = found(fleet(1, h1={"memory.total_mib": 400_000}), known(fleet(1)))
    assert (row.status, row.value.split(", ")[0]) == (Status.WARN, "memory 400,000 MiB")


def test_a_link_that_is_down_is_below_its_record() -> None:
    up = replace(ethernet("10.0.0.1/24"), speed_mbps=25000)
    record = known(fleet(1, h1={"facts.interfaces": (up,)}))
    for link, figure in ((replace(up, up=False), "0 Mb/s"), (replace(up, speed_mbps=10000), "10,000 Mb/s")):
        (row,) = found(fleet(1, h1={"facts.interfaces": (link,)}), record)
        assert row.status is Status.WARN
        assert row.value.startswith(f"link speed: eth0 {figure}, recorded 25,000")


def test_a_host_that_was_slow_and_not_measured_again_gets_no_record() -> None:
    late = [{"source": "h1", "target": "h2", "mbps": None, "problem": "no time left of --within 9s", "unmet": False}]
    checked = with_matrix(fleet(3), verdicts=({"hosts": ["h2"], "blames": True, "evidence": []},))
    assert checked.matrix is not None
    made, refused = new_records(replace(checked, matrix={**checked.matrix, "repeated": late}), (), {}, MADE)
    assert [row.name for row in made] == ["h1", "h3"]
    assert "no time to measure it again" in refused["h2"]


def test_an_expired_record_and_one_that_is_missing_are_not_run() -> None:
    records = known(fleet(2))
    del records["id2"]
    rows = found(fleet(2, h1={"software.kernel": "6.2"}), records)
    assert [(row.status, row.value, row.broken) for row in rows] == [
        (Status.UNCHECKED, "record of 2030-01-02 expired: kernel 6.1 -> 6.2", False),
        (Status.UNCHECKED, "no record was made", False),
    ]


def test_two_hosts_with_one_machine_id_have_no_record() -> None:
    twice: dict[str, Any] = {"identity.machine_id": "id1"}
    checked = fleet(2, h2=twice)
    assert {row.state for row in compare(checked, known(fleet(2)))} == {UNKNOWN}
    made, refused = new_records(checked, (), {}, MADE)
    assert made == ()
    assert refused == dict.fromkeys(("h1", "h2"), "another host has the same machine id")


def test_a_strange_answer_of_a_host_breaks_nothing() -> None:
    (row,) = compare(fleet(1, h1={"software": ["no", "mapping"]}), known(fleet(1)))
    assert row.state == UNKNOWN
    assert "not what ddp-play's program sends" in row.reason


def test_a_host_with_a_failed_check_gets_no_record_and_one_with_a_warning_does() -> None:
    checked = fleet(3, h2={"cpu_quota.cpus": 1}, h3={"reboot_pending": ["linux"]})
    made, refused = new_records(checked, judge(checked, "quick", ASKED), {}, MADE)
    assert [row.name for row in made] == ["h1", "h3"]
    assert refused == {"h2": "failed: cpu quota"}


def test_a_host_without_facts_gets_none() -> None:
    checked = Fleet((fleet(1).hosts[0], *(row for row in (CheckedHost("h9", problem="refused"),))))
    made, refused = new_records(checked, (), {}, MADE)
    assert [row.name for row in made] == ["h1"]
    assert refused == {"h9": "the host could not be asked"}


def test_a_gpu_of_known_hardware_with_less_memory_warns_and_an_unknown_one_does_not() -> None:
    gpus = (Gpu(0, "GPU-0", "NVIDIA H200", 70_000), Gpu(1, "GPU-1", "NVIDIA Z1", 8))
    (row,) = found(fleet(1, h1={"facts.gpus": gpus}), {})
    assert (row.check, row.status) == ("known hardware", Status.WARN)
    assert "GPU 0" in row.value
    assert "data sheet" in row.source


def test_the_comparison_as_a_document_is_plain() -> None:
    checked = with_matrix(fleet(2), h1_h2={"mbps": 800.0})
    row = compare(checked, known(with_matrix(fleet(2))))[0].to_json()
    assert (row["host"], row["state"]) == ("h1", COMPARED)
    worse = [figure for figure in row["figures"] if figure["worse"]]
    assert [(figure["figure"], figure["share"], figure["limit"]) for figure in worse] == [("rate: h2", 0.8, 850.0)]
