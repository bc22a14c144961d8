"""Hosts that get load: with torch, used by nobody, and with all their slots held."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.checks.host_users import used_by
from ddp_play.checks.load_hosts import LoadHosts, all_slots, hosts_for_load
from ddp_play.planning.host_selection import slot_names
from tests.unit.build import gpus, job
from tests.unit.checks.fleets import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.host_facts import HostFacts

TORCH = {"rank_python": "/opt/python3", "rank_torch": "2.13.0"}


@dataclass
class Talk:
    """Hosts that answer who uses them; one without an answer is lost."""

    users: dict[str, Any]
    lost: dict[str, str] = field(default_factory=dict)
    orders: dict[str, Any] = field(default_factory=dict)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert kind == "check_slots"
        assert limit_s > 0
        self.orders.update(fields)
        return {host: {"users": self.users[host]} for host in fields if host in self.users}


@dataclass
class Containers:
    """Containers of a job on these hosts."""

    on: tuple[str, ...]

    def pythons(self) -> dict[str, str]:
        return dict.fromkeys(self.on, "python3")


def hosts(**fields: Any) -> dict[str, HostFacts]:
    return {f"h{number}": facts(number, **{**TORCH, **fields}) for number in (1, 2)}


def test_hosts_that_hold_their_slots_get_load() -> None:
    talk = Talk({"h1": [], "h2": []})
    assert hosts_for_load(talk, hosts(slots=2), {}, None) == LoadHosts({"h1": "/opt/python3", "h2": "/opt/python3"}, {})
    assert talk.orders == {name: {"names": ["slot-0", "slot-1"]} for name in ("h1", "h2")}


def test_a_run_that_started_after_the_readings_is_among_them_and_its_host_has_no_load() -> None:
    talk = Talk({"h1": [], "h2": ["run night of kim"]})
    early = {name: {"living_runs": {"value": []}, "cpu": {"value": {}}} for name in ("h1", "h2")}
    found = hosts_for_load(talk, hosts(), early, None)
    assert list(found.pythons) == ["h1"]
    assert used_by(hosts()["h2"], found.readings["h2"]) == "no load where somebody is: run night of kim"
    assert set(found.readings["h2"]) == {"living_runs", "cpu"}
    assert found.readings["h1"] == early["h1"]
    assert early["h2"]["living_runs"] == {"value": []}, "not changed"


def test_a_host_that_is_used_lost_or_without_torch_is_not_asked() -> None:
    known = {**hosts(), "h3": facts(3, **TORCH), "h4": facts(4)}
    talk = Talk({"h1": []}, lost={"h2": "the connection ended"})
    used = {"h3": {"living_runs": {"value": ["run night of kim"]}}}
    assert list(hosts_for_load(talk, known, used, None).pythons) == list(talk.orders) == ["h1"]


def test_a_host_without_an_answer_has_no_load_and_an_odd_answer_is_somebody() -> None:
    found = hosts_for_load(Talk({"h1": "odd"}), hosts(), {}, None)
    assert found.pythons == {}
    assert used_by(hosts()["h1"], found.readings["h1"]) == "no load where somebody is: somebody"


def test_hosts_of_a_job_with_an_image_are_those_with_torch_in_it() -> None:
    talk = Talk({"h1": [], "h2": []})
    assert hosts_for_load(talk, hosts(), {}, Containers(("h2", "h9"))).pythons == {"h2": "python3"}


def test_a_host_with_dcgm_and_without_torch_holds_its_slots_too() -> None:
    known = {"h1": facts(1, gpus=gpus(1)), "h2": facts(2, gpus=gpus(1), **TORCH), "h3": facts(3, gpus=gpus(1))}
    early = {name: {"dcgmi": {"value": "/usr/bin/dcgmi"}} for name in known}
    talk = Talk({"h1": [], "h2": [], "h3": ["run night of kim"]})
    found = hosts_for_load(talk, known, early, None)
    assert (list(found.pythons), found.diagnosed) == (["h2"], ("h1", "h2"))
    assert set(talk.orders) == set(known)
    assert used_by(known["h3"], found.readings["h3"]) == "no load where somebody is: run night of kim"


def test_two_names_of_one_machine_hold_its_slots_once_and_share_the_answer() -> None:
    known = hosts(machine="boot", slots=2)
    for users, names in (([], ["h1", "h2"]), (["run night of kim"], [])):
        talk = Talk({"h1": users})
        assert list(hosts_for_load(talk, known, {}, None).pythons) == names
        assert talk.orders == {"h1": {"names": [f"slot-{number}" for number in range(4)]}}


def test_all_slots_are_those_that_runs_take_with_and_without_gpus() -> None:
    host = facts(1, gpus=gpus(2), slots=3)
    found = all_slots({"h1": host}, ["h1"])["h1"]
    for wanted, count in (("auto", 2), ("none", 3)):
        assert set(slot_names(job(gpus=wanted), (host,), {"h1": count})["h1"]) <= set(found)
    assert len(found) == 5
