"""What a record of a host has, and for which hosts it holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.fleet import Fleet, NotRun
from ddp_play.checks.host_records import (
    Record,
    directions,
    figures_of,
    identities,
    identity_of,
    merged,
    parts_of,
    record_of,
    recorded_rates,
    versions_of,
)
from ddp_play.planning.host_facts import Gpu
from tests.unit.build import ethernet

from .fleets import fleet
from .matrices import with_matrix

NOW = "2030-01-02T03:04:05Z"
GPUS = (Gpu(0, "GPU-a", "H200", 143771), Gpu(1, "GPU-b", "H200", 143771))


def records(checked: Fleet) -> dict[str, Record]:
    made = [record_of(host, checked, "full", NOW) for host in checked.reached]
    return {row.machine: row for row in made}


def test_figures_parts_and_versions() -> None:
    link = replace(ethernet("10.0.0.1/24"), speed_mbps=25000)
    change: dict[str, Any] = {
        "facts.gpus": GPUS, "facts.interfaces": (link,), "governor.max_mhz": 3500, "nics.eth0/firmware": "mlx5 28.1",
        "software.nvidia driver": "580.1",
    }  # fmt: skip
    (host,) = fleet(1, h1=change).hosts
    assert figures_of(host) == {
        "cpus": 128.0, "memory": 500001.0, "cpu clock limit": 3500.0, "gpu memory": 287542.0,
        "link speed: eth0": 25000.0,
    }  # fmt: skip
    assert parts_of(host) == {"GPUs": ["GPU-a", "GPU-b"], "NICs": ["02:00:00:00:00:01"]}
    assert versions_of(host) == {"kernel": "6.1", "nvidia driver": "580.1", "firmware of eth0": "mlx5 28.1"}
    own = identity_of(host)
    assert (own.machine, own.parts, own.versions) == ("id1", parts_of(host), versions_of(host))


def test_what_was_not_read_is_no_figure() -> None:
    (host,) = fleet(1, h1={"cpu": {"problem": "hangs"}, "memory": {"problem": "hangs"}}).hosts
    assert figures_of(host) == {"cpu clock limit": 3499.0, "link speed: eth0": 1000.0}
    (nameless,) = fleet(1, h1={"identity.machine_id": ""}).hosts
    with pytest.raises(NotRun, match="machine-id"):
        identity_of(nameless)


STRANGE: tuple[dict[str, Any], ...] = (
    {"software": ["no", "mapping"]}, {"identity": {}}, {"identity.macs": ["x"]}, {"nics": 3},
    {"identity.guids": [1, "x"]},
)  # fmt: skip


@pytest.mark.parametrize("change", STRANGE)
def test_a_host_whose_answer_has_another_form_has_no_identity_and_disturbs_no_other(change: dict[str, Any]) -> None:
    checked = with_matrix(fleet(2, h2=change))
    with pytest.raises(NotRun, match="not what ddp-play's program sends"):
        record_of(checked.hosts[1], checked, "full", NOW)
    assert set(identities(checked)) == {"h1"}
    assert record_of(checked.hosts[0], checked, "full", NOW).rates == {}
    assert recorded_rates(checked, records(with_matrix(fleet(2)))) == {}


def test_figures_of_another_form_make_no_record() -> None:
    checked = fleet(1, h1={"memory.total_mib": "much"})
    with pytest.raises(NotRun, match="not what ddp-play's program sends"):
        record_of(checked.hosts[0], checked, "full", NOW)


def test_only_rates_of_the_network_are_recorded_and_the_best_of_them() -> None:
    checked = with_matrix(fleet(3), h1_h2={"busy": 0.9}, h1_h3={"mbps": 400.0}, h3_h1={"mbps": None, "problem": "x"})
    assert checked.matrix is not None
    again = {**checked.matrix, "repeated": [{**row, "mbps": 900.0} for row in checked.matrix["directions"]
                                            if (row["source"], row["target"]) == ("h1", "h3")]}  # fmt: skip
    rows = {(row["source"], row["target"]): row["mbps"] for row in directions(replace(checked, matrix=again))}
    assert rows == {("h1", "h3"): 900.0, ("h2", "h1"): 1000.0, ("h2", "h3"): 1000.0, ("h3", "h2"): 1000.0}


def test_a_record_is_the_same_after_its_file() -> None:
    record = records(with_matrix(fleet(3)))["id1"]
    document = json.loads(json.dumps(record.to_json()))
    assert Record.from_json(document) == record
    assert Record.from_json({**document, "format": 2}) is None
    assert Record.from_json({**document, "new": 1}) is None
    assert Record.from_json({}) is None


def test_a_record_expires_with_parts_and_versions_of_either_end() -> None:
    known = records(with_matrix(fleet(2)))
    assert set(recorded_rates(fleet(2), known)) == {("h1", "h2"), ("h2", "h1")}
    for change in ({"software.kernel": "6.2"}, {"facts.gpus": GPUS}, {"nics.eth0/firmware": "28.2"}):
        assert recorded_rates(fleet(2, h2=change), known) == {}, change
        (_, host) = fleet(2, h2=change).hosts
        assert known["id2"].changed(parts_of(host), versions_of(host))
    (_, host) = fleet(2, h2={"software.kernel": "6.2"}).hosts
    assert known["id2"].changed(parts_of(host), versions_of(host)) == "kernel 6.1 -> 6.2"


def test_parts_that_are_gone_are_told_from_those_that_were_replaced() -> None:
    (host,) = fleet(1, h1={"facts.gpus": GPUS}).hosts
    record = record_of(host, fleet(1, h1={"facts.gpus": GPUS}), "quick", NOW)
    one, other = {**record.parts, "GPUs": ["GPU-a"]}, {**record.parts, "GPUs": ["GPU-a", "GPU-z"]}
    assert (record.changed(one, record.versions), record.gone(one)) == ("GPUs: 1 gone", ("GPUs GPU-b",))
    assert (record.changed(other, record.versions), record.gone(other)) == ("GPUs: 1 gone, 1 new", ())
    assert (record.changed(record.parts, record.versions), record.gone(record.parts)) == ("", ())


def test_a_host_with_another_name_has_its_record_and_another_host_of_its_name_has_not() -> None:
    known = records(with_matrix(fleet(2)))
    swapped = {"identity.macs": {"eth0": "02:00:00:00:00:02"}}, {"identity.macs": {"eth0": "02:00:00:00:00:01"}}
    checked = fleet(
        2, h1={"identity.machine_id": "id2", **swapped[0]}, h2={"identity.machine_id": "id1", **swapped[1]}
    )  # fmt: skip
    assert recorded_rates(checked, known)[("h1", "h2")] == known["id2"].rates["id1"]
    assert recorded_rates(fleet(2, h1={"identity.machine_id": "id9"}), known) == {}


def test_a_quick_check_keeps_the_rates_of_a_full_one_while_nothing_has_changed() -> None:
    old, new = records(with_matrix(fleet(2)))["id1"], records(fleet(2))["id1"]
    assert merged(new, old).rates == old.rates
    other = records(fleet(2, h1={"software.kernel": "6.2"}))["id1"]
    assert merged(other, old).rates == {}
    assert merged(new, None) is new
