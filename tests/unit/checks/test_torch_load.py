"""Load in the ranks' torch over channels: what is asked of which host, and how a bad group is searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.checks.torch_load import PROGRAM_S, TorchLoad, best, least_busbw, load_of
from ddp_play.guard import rank_program

HOSTS = ("h1", "h2", "h3", "h4")
NETWORK = PeerNetwork(
    "10.0.0.0/24",
    tuple((name, f"10.0.0.{at}") for at, name in enumerate(HOSTS, 1)),
    tuple((name, "eth0") for name in HOSTS),
)
PORTS = (29500, 29545, 29590, 29999)


def multiplied(speed: float = 80.0, share: float = 0.5) -> dict[str, Any]:
    return {"part": "multiply", "device": "cpu", "gflops": 2 * speed, "gflops_per_cpu": speed, "cpu_share": share,
            "right": True}  # fmt: skip


@dataclass
class Talk:
    """Hosts of which `bad` spoil every group, `silent` do not start torch, and `slow` multiply at half speed."""

    bad: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    seconds: float = 1000.0
    lost: dict[str, str] = field(default_factory=dict)
    asked: list[Mapping[str, dict[str, Any]]] = field(default_factory=list)
    kind: str = "check_torch"

    def has_time(self, least_s: float) -> bool:
        return self.seconds > least_s

    def cap_s(self, limit_s: float) -> float:
        return min(limit_s, self.seconds)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert kind == self.kind
        self.asked.append(fields)
        self.seconds -= 10
        return {name: {"program": {"value": self._value(name, row["order"], fields)}} for name, row in fields.items()}

    def _value(self, name: str, order: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        if name in self.silent:
            return {"parts": [], "problem": "ImportError: libtorch_cpu.so"}
        parts: list[dict[str, Any]] = [{"part": "start", "torch": "2.13.0"}]
        if "multiply" in order:
            parts.append(multiplied(40.0 if name in self.slow else 80.0))
        if "group" in order:
            wanted = order["group"]
            members = [other for other, row in fields.items()
                       if row["order"].get("group", {}).get("port") == wanted["port"]]  # fmt: skip
            assert len(members) == wanted["world"]
            is_bad = set(members) & {*self.bad, *self.silent}
            sizes = [{"bytes": size, "wrong": 0, "seconds": 0.1, "busbw_gb_s": 0.5} for size in wanted["sizes"]]
            found = {"problem": "Timed out"} if is_bad else {"backend": "gloo", "sizes": sizes}
            parts.append({"part": "group", **found})
        return {"parts": parts, "before": {}, "after": {}, "seconds": 3.0}


def measured(talk: Talk, hosts: tuple[str, ...] = HOSTS, least: float = 0.0) -> dict[str, Any]:
    return TorchLoad(talk, dict.fromkeys(hosts, "/usr/bin/python3"), NETWORK, PORTS, least).measure()


def test_hosts_that_are_well_are_asked_once() -> None:
    talk = Talk()
    found = measured(talk)
    assert (found["blamed"], found["blamed_hosts"]) == ("nobody", [])
    (fields,) = talk.asked
    assert set(fields) == set(HOSTS)
    orders = [fields[name]["order"]["group"] for name in HOSTS]
    assert [(row["rank"], row["world"], row["address"]) for row in orders] == [
        (at, 4, "10.0.0.1") for at in range(4)
    ]  # fmt: skip
    assert [fields[name]["port"] for name in HOSTS] == [orders[0]["port"], None, None, None]
    assert "all_reduce" in fields["h1"]["source"]
    assert found["groups"][0]["sizes"][-1]["busbw_gb_s"] == 0.5


@pytest.mark.parametrize("bad", HOSTS)
def test_a_host_that_spoils_every_group_is_named(bad: str) -> None:
    found = measured(Talk(bad=(bad,)))
    assert (found["blamed"], found["blamed_hosts"]) == ("hosts", [bad])
    assert found["groups"][0]["problem"].endswith("Timed out")


def test_a_host_that_cannot_load_torch_takes_no_part() -> None:
    talk = Talk(silent=("h3",))
    found = measured(talk)
    assert found["blamed"] == "nobody"
    assert set(talk.asked[-1]) == {"h1", "h2", "h4"}
    assert found["hosts"]["h3"][0]["problem"] == "ImportError: libtorch_cpu.so"


def test_a_slow_group_is_searched_too() -> None:
    found = measured(Talk(), least=0.6)
    assert found["blamed"] == "the test or the network"
    assert "expected at least 0.6" in found["groups"][0]["problem"]
    assert measured(Talk(), least=0.4)["blamed"] == "nobody"


def test_a_slow_host_multiplies_again_with_all_others() -> None:
    talk = Talk(slow=("h2",))
    found = measured(talk)
    assert [set(fields) for fields in talk.asked] == [set(HOSTS), set(HOSTS)]
    assert [len(rows) for rows in found["hosts"].values()] == [2, 2, 2, 2]
    assert found["blamed"] == "nobody"


def test_without_time_nothing_is_asked_or_named() -> None:
    talk = Talk(seconds=5)
    assert measured(talk)["blamed"] == "not run"
    assert talk.asked == []
    short = measured(Talk(bad=("h2",), seconds=20))
    assert short["blamed"] in ("cannot tell", "not run")


def test_programs_that_had_too_little_time_blame_nobody() -> None:
    class Short(Talk):
        def _value(self, name: str, order: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
            return {"parts": [{"part": "start"}, multiplied()], "problem": "no end within 18 s"}

    found = measured(Short(seconds=20))
    assert (found["blamed"], found["reason"]) == ("not run", "no time left of --within")
    assert measured(Short())["blamed"] == "the test or the network", "they had all the time that they need"


def test_a_host_that_is_lost_meanwhile_has_the_reason() -> None:
    class Lost(Talk):
        def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
            self.lost["h4"] = "the connection ended"
            return {name: row for name, row in super().documents(kind, fields, limit_s=limit_s).items() if name != "h4"}

    found = measured(Lost())
    assert found["hosts"]["h4"][0] == {"parts": [], "problem": "the connection ended"}
    assert found["blamed"] == "nobody"


@dataclass
class Leased(Talk):
    """Hosts on which runs have these ports: what is told to use one there does not begin, and its group times out."""

    leased: tuple[int, ...] = ()

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        found = super().documents(kind, fields, limit_s=limit_s)
        for name, row in fields.items():
            if row["order"].get("group", {}).get("port") not in self.leased:
                continue
            value = found[name]["program"]["value"]
            if row["port"] is None:
                value["parts"][-1] = {"part": "group", "problem": "Timed out"}
            else:
                found[name] = rank_program.busy(row["port"])
        return found


def test_a_group_takes_another_port_where_a_run_has_its_own() -> None:
    talk = Leased(leased=(29500, 29545))
    found = measured(talk)
    assert [fields["h1"]["port"] for fields in talk.asked] == [29500, 29545, 29590]
    assert (found["blamed"], talk.lost) == ("nobody", {})
    assert [row["hosts"] for row in found["groups"]] == [list(HOSTS)], "what had no port says nothing"
    assert [len(rows) for rows in found["hosts"].values()] == [1, 1, 1, 1]


def test_a_group_without_a_free_port_blames_nobody_and_says_why() -> None:
    talk = Leased(leased=PORTS)
    found = measured(talk)
    assert (found["blamed"], found["reason"]) == ("not run", "a run has port 29999")
    assert talk.lost == {}
    short = Leased(leased=(29500,), seconds=20)
    assert (measured(short)["blamed"], len(short.asked)) == ("not run", 1)


def test_fewer_than_two_hosts_form_no_group() -> None:
    found = measured(Talk(), ("h1",))
    assert (found["blamed"], bool(found["reason"])) == ("not run", True)
    assert found["hosts"]["h1"][0]["parts"][1]["part"] == "multiply"


def test_only_hosts_with_a_python_with_torch_are_asked() -> None:
    talk = Talk()
    load = load_of(talk, {"h1": "/usr/bin/python3"}, NETWORK, (29500, 29999), matrix=None)
    assert load.measure()["hosts"].keys() == {"h1"}
    assert set(talk.asked[0]) == {"h1"}
    assert load.ports[0] == 29500


def test_one_round_of_other_work() -> None:
    talk = Talk(lost={"h4": "gone"})
    load = load_of(talk, dict.fromkeys(HOSTS, "/usr/bin/python3"), NETWORK, (29500, 29999), matrix=None)
    group = load.once({host: {"repeat": {"seconds": 2.0, "first": 7}} for host in HOSTS}, 5.0)
    assert group is not None
    assert group["hosts"] == ["h1", "h2", "h3"], "the others do not wait for a host that is lost"
    order = talk.asked[0]["h2"]["order"]
    assert order["repeat"] == {"seconds": 2.0, "first": 7}
    assert "multiply" not in order
    assert talk.asked[0]["h2"]["limit_s"] == PROGRAM_S + 5.0


def test_ranks_in_containers_have_the_load_in_containers() -> None:
    class Containers:
        def fields(
            self, name: str, source: str, order: Mapping[str, Any], *, limit_s: float, python: str = ""
        ) -> dict[str, Any]:
            assert "all_reduce" in source
            return {"spec": f"container of {name}", "order": dict(order), "python": python, "limit_s": limit_s}

    talk = Talk(bad=("h2",), kind="container_run")
    load = TorchLoad(talk, dict.fromkeys(HOSTS, "/opt/python"), NETWORK, PORTS, 0.0, Containers())
    found = load.measure()
    assert (found["blamed"], found["blamed_hosts"]) == ("hosts", ["h2"])
    assert talk.asked[0]["h1"]["spec"] == "container of h1"
    assert talk.asked[0]["h1"]["port"] in PORTS, "it belongs to no run meanwhile"
    assert {row["python"] for fields in talk.asked for row in fields.values()} == {"/opt/python"}


def test_the_rate_that_a_group_has_at_least() -> None:
    row = {"mbps": 8000.0, "busy": 0.0}
    assert least_busbw({"directions": [row, row, {"mbps": None, "busy": 0.0}]}) == 0.5
    assert least_busbw({"directions": [{**row, "busy": 0.9}, {**row, "busy": 0.9}, row]}) == 0.0
    assert least_busbw(None) == 0.0


def test_the_best_of_several_times_counts_of_the_slowest_gpu() -> None:
    def answer(*parts: dict[str, Any]) -> dict[str, Any]:
        return {"parts": list(parts)}

    assert best([answer(multiplied(70)), answer(multiplied(82))], "speed of processors") == 82
    gpus = [{"part": "multiply", "device": f"cuda:{at}", "gflops": speed} for at, speed in enumerate((900.0, 800.0))]
    assert best([answer(*gpus)], "speed of gpus") == 800.0
    assert best([answer(*gpus)], "time on processors") is None
    assert best([answer({"part": "multiply", "problem": "out of memory"})], "speed of gpus") is None


@pytest.mark.parametrize(
    "part",
    [
        {"part": "multiply"},
        {"part": "multiply", "gflops": "many", "gflops_per_cpu": 1.0, "cpu_share": 1.0},
        {"part": "multiply", "gflops": float("nan"), "gflops_per_cpu": 1.0, "cpu_share": 1.0},
        {"part": "group", "sizes": "all"},
        {"part": "group", "sizes": [{"bytes": 1}]},
        {"part": "group", "sizes": [{"bytes": 1, "seconds": 1, "wrong": [], "busbw_gb_s": 1}]},
        {"part": "group", "sizes": [None] * 1000},
    ],
)
def test_an_answer_of_another_form_is_a_problem_of_its_host(part: dict[str, Any]) -> None:
    class Odd(Talk):
        def _value(self, name: str, order: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
            value = super()._value(name, order, fields)
            if name == "h4":
                value["parts"] = [*(row for row in value["parts"] if row["part"] != part["part"]), part]
            return value

    found = measured(Odd())
    (row,) = (row for row in found["hosts"]["h4"][0]["parts"] if row["part"] == part["part"])
    assert row == {"part": part["part"], "problem": "the answer is not what ddp-play's program sends"}


@pytest.mark.parametrize("value", [None, {"torch": None}, {"torch": {"value": {"parts": 3}}}, {"torch": {"value": []}}])
def test_an_answer_that_is_no_answer_is_a_problem(value: Any) -> None:
    class Mute(Talk):
        def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
            found = super().documents(kind, fields, limit_s=limit_s)
            return {**found, "h4": value} if "h4" in found else found

    found = measured(Mute())
    assert found["hosts"]["h4"][0]["problem"]
    assert found["blamed"] == "nobody"


ODD_VALUES: tuple[dict[str, Any], ...] = (
    {"parts": [{**multiplied(), "problem": "CUDA error", "gflops_per_cpu": "fast"}]},
    {"parts": [multiplied(), {"part": "group", "problem": 5, "sizes": 7}]},
    {"parts": [multiplied()], "before": 7, "after": {"stolen_s": "many"}, "seconds": [], "problem": {}},
)


@pytest.mark.parametrize("value", ODD_VALUES)
def test_what_is_odd_beside_a_problem_ends_no_check(value: dict[str, Any]) -> None:
    class Odd(Talk):
        def _value(self, name: str, order: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
            return value if name == "h3" else super()._value(name, order, fields)

    kept = measured(Odd())["hosts"]["h3"][0]
    assert all(not isinstance(part.get("gflops_per_cpu"), str) for part in kept["parts"])
    assert set(kept) - {"parts", "before", "after"} == set()
    assert kept.get("before", {}) == kept.get("after", {}) == {}
