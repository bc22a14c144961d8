"""Identity, names and clocks: a defect of one host is one finding about it."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from tests.unit.build import ethernet
from tests.unit.checks.fleets import bad, fleet, the_one

WARN, FAIL = Status.WARN, Status.FAIL

# Change of h3, then check, result, and a part of the value.
ONE_HOST: list[tuple[dict[str, Any], str, Status, str]] = [
    ({"names.h3/addresses": ["127.0.1.1"]}, "own name", WARN, "127.0.1.1"),
    ({"names.h3/addresses": []}, "own name", WARN, "no address"),
    ({"names.h3/addresses": ["10.0.0.1"]}, "own name", FAIL, "10.0.0.1"),
    ({"names.h2/addresses": ["10.0.0.1"]}, "names of peers", FAIL, "h2 is 10.0.0.1"),
    ({"names.h2": {"addresses": [], "error": "unknown", "took_s": 0.1}}, "names of peers", WARN, "h2 not found"),
    ({"names.h2/took_s": 3.0}, "name service", WARN, "3.0 s for h2"),
    ({"names.h2": {"addresses": [], "error": "no answer", "took_s": 4.0}}, "name service", WARN, "no answer for h2"),
    ({"clock": {"offset_s": -5.0, "trip_s": 0.1}}, "clock", FAIL, "-5.00 s"),
    ({"clock": {"offset_s": 1.0, "trip_s": 0.1}}, "clock", WARN, "+1.00 s"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "check", "status", "value"), ONE_HOST, ids=lambda part: str(part)[:40])
def test_a_defect_is_one_finding_about_its_host(change: dict[str, Any], check: str, status: Status, value: str) -> None:
    the_one(change, check, status, value)


def test_hosts_without_a_defect_have_no_finding() -> None:
    assert bad(fleet()) == []


TWO_NAMES: list[tuple[dict[str, Any], str]] = [
    ({"identity.machine_id": "id1"}, "machine id"),
    ({"identity.hostname": "h1", "facts.hostname": "h1"}, "host name"),
    ({"identity.host_keys": ["key1"]}, "ssh host keys"),
    ({"identity.macs": {"eth9": "02:00:00:00:00:01"}}, "MAC addresses"),
    ({"identity.guids": ["0x1"]}, ""),
    ({"facts.interfaces": (ethernet("10.0.0.3/24"), ethernet("10.9.9.9/24", name="docker0"))}, ""),
]


@pytest.mark.parametrize(("change", "check"), TWO_NAMES)
def test_an_id_that_two_hosts_have_names_both(change: dict[str, Any], check: str) -> None:
    found = [(row.check, row.status, row.where) for row in bad(fleet(h3=change))]
    assert found == ([(check, FAIL, ("h1", "h3"))] if check else [])


def test_an_address_that_two_hosts_have_names_both_and_the_rest_is_tested() -> None:
    second = {f"h{n}": {"facts.interfaces": (with_second(n),)} for n in (1, 3)}
    assert [(row.check, row.where, row.value) for row in bad(fleet(**second))] == [
        ("addresses", ("h1", "h3"), "10.0.0.200")
    ]


def with_second(number: int) -> Any:
    link = ethernet(f"10.0.0.{number}/24")
    return type(link)(link.name, link.link, (*link.addresses, "10.0.0.200/24"), speed_mbps=link.speed_mbps)
