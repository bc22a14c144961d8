"""The exchange of a check with the real program on this machine, and with hosts that stop to answer."""

from __future__ import annotations

import getpass
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks import check_exchange
from ddp_play.checks.check_exchange import Exchange, exchange
from ddp_play.checks.check_levels import judge
from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import Fleet, fleet_from_json
from ddp_play.checks.time_budget import TimeBudget
from ddp_play.checks.torch_load import TorchLoad
from ddp_play.engines.route import Route
from ddp_play.errors import Interrupted
from ddp_play.guard import leases
from ddp_play.planning.remedy_text import Asked
from ddp_play.run.discovery import Discovery, Query
from ddp_play.run.host_channel import ProcessChannel
from ddp_play.run.host_program import shell_command
from tests.unit.build import gpus, ib_host
from tests.waiting import wait_until

from .fleets import fleet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LATE = "no time left of --within 9s"
HERE = ("/bin/sh", "-c")


def channel(host: str, command: str) -> ProcessChannel:
    return ProcessChannel(Route(host, HERE, command))


# Interfaces that come and go with containers of other tests.
OF_CONTAINERS = ("veth", "br-")


def test_a_host_from_its_facts_to_its_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    shared = tmp_path / "shared"
    shared.mkdir()
    discovery = Discovery(60)
    wanted = {"engine": False, "shared_dir": str(shared)}
    discovery.ask(Query(Route("h1", HERE, shell_command(sys.executable, "channel")), "127.0.0.1", wanted, {}))
    discovery.refuse("h2", {"kind": "unreachable", "message": "Connection refused", "hint": "sshd"})
    discovery.finish()
    document = exchange(discovery.rows, discovery.take(), CheckScope(outputs=True), records=lambda _fleet: {})
    assert "lost" not in document["hosts"]["h1"]
    assert document["hosts"]["h1"]["clock"]["trip_s"] < 10
    found = judge(fleet_from_json(document), "quick", Asked(("inv",)))
    assert [row.where for row in found if row.check == "host reached"] == [("h1",), ("h2",)]
    broken = [(row.check, row.value) for row in found if row.broken]
    assert broken == []
    passed = {row.check for row in found if row.status is Status.OK}
    assert {"state directory", "shared directory", "files of the check", "clock", "cpu", "memory"} <= passed
    assert list(shared.iterdir()) == []
    assert document["late"] == ""
    host = fleet_from_json(document).hosts[0]
    assert host.outputs["uname -srvm"]["value"]["output"].startswith("Linux ")
    lasting = {name for name in host.read("counters") if not name.startswith(OF_CONTAINERS)}
    assert "lo" in lasting
    assert lasting <= set(host.counters["counters"]["value"])


def discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Discovery:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    discovery = Discovery(60)
    route = Route("h1", HERE, shell_command(sys.executable, "channel"))
    discovery.ask(Query(route, "127.0.0.1", {"engine": False}, {}))
    discovery.finish()
    return discovery


@dataclass
class Containers:
    """Containers of a job that have torch."""

    orders: list[str] = field(default_factory=list)

    def read(self, _names: list[str]) -> dict[str, Any]:
        self.orders.append("container_run")
        return {"h1": {"program": {"value": {"parts": []}}}}

    def pythons(self) -> dict[str, str]:
        return {"h1": "python3"}

    def end(self) -> None:
        self.orders.append("container_end")


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The orders of all exchanges, in turn."""
    kinds: list[str] = []
    asked = Exchange.documents

    def documents(talk: Exchange, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        kinds.append(kind)
        return asked(talk, kind, fields, limit_s=limit_s)

    monkeypatch.setattr(Exchange, "documents", documents)
    return kinds


def test_counters_that_are_judged_are_read_once_also_for_a_ticket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: list[str]
) -> None:
    discovery = discovered(tmp_path, monkeypatch)
    discovery.rows["h1"]["facts"]["rdma"] = [{**asdict(port), "interfaces": []} for port in ib_host("h1", 1).rdma]
    document = exchange(discovery.rows, discovery.take(), CheckScope("full", outputs=True), records=lambda _fleet: {})
    assert orders[-2:] == ["check_counters", "check_outputs"]
    assert orders.count("check_counters") == 1
    assert document["counted_s"] > 0
    assert document["hosts"]["h1"]["counters"]


def test_runs_have_their_ports_back_before_containers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: list[str]
) -> None:
    monkeypatch.setattr(check_exchange, "containers_of", lambda _talk, _plan: Containers(orders))
    discovery = discovered(tmp_path, monkeypatch)
    document = exchange(discovery.rows, discovery.take(), CheckScope(), records=lambda _fleet: {})
    assert orders == ["check_read", "check_listen", "check_reach", "check_end", "container_run", "container_end"]
    assert document["hosts"]["h1"]["container"]


@pytest.mark.parametrize("containers", [None, Containers()])
def test_a_host_that_somebody_uses_has_no_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, containers: Containers | None
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(check_exchange, "containers_of", lambda _talk, _plan: containers)

    def measure(load: TorchLoad) -> dict[str, Any]:
        asked.append(list(load.pythons))
        return {}

    monkeypatch.setattr(TorchLoad, "measure", measure)
    used = tmp_path / "runs" / "night.0123456789abcdef" / "1.h1"
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "x.pyc", "guard", str(used)]
    for is_used in (False, True):
        discovery = discovered(tmp_path, monkeypatch)
        discovery.rows["h1"]["facts"]["rank_python"] = {"path": sys.executable, "problem": "", "torch": "2.13.0"}
        with subprocess.Popen(argv if is_used else ["true"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            document = exchange(discovery.rows, discovery.take(), CheckScope("full"), records=lambda _fleet: {})
            process.kill()
        living = document["hosts"]["h1"]["readings"]["living_runs"]["value"]
        assert living == ([f"run night of {getpass.getuser()}"] if is_used else [])
    assert asked == [["h1"]], "only where nobody was"


def test_a_host_that_somebody_takes_after_the_readings_has_no_load_and_says_who(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TorchLoad, "measure", lambda _load: pytest.fail("it has load"))
    discovery = discovered(tmp_path, monkeypatch)
    discovery.rows["h1"]["facts"]["rank_python"] = {"path": sys.executable, "problem": "", "torch": "2.13.0"}
    lease = leases.hold("slot-0", f"ddp-play/{hashlib.sha256(bytes(tmp_path)).hexdigest()[:16]}")
    assert lease is not None
    with lease.answer():
        document = exchange(discovery.rows, discovery.take(), CheckScope("full"), records=lambda _fleet: {})
    somebody = [f"process {os.getpid()} of {getpass.getuser()}"]
    assert document["hosts"]["h1"]["readings"]["living_runs"]["value"] == somebody
    assert document["torch"] is None


def test_dcgm_comes_after_the_load_and_never_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: list[str]
) -> None:
    (tmp_path / "dcgmi").write_text("#!/bin/sh\necho no JSON\n")
    (tmp_path / "dcgmi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(TorchLoad, "measure", lambda _load: {"order": orders.append("load")})  # type: ignore[func-returns-value]
    discovery = discovered(tmp_path, monkeypatch)
    discovery.rows["h1"]["facts"]["rank_python"] = {"path": sys.executable, "problem": "", "torch": "2.13.0"}
    discovery.rows["h1"]["facts"]["gpus"] = [asdict(gpu) for gpu in gpus(1)]
    document = exchange(discovery.rows, discovery.take(), CheckScope("full"), records=lambda _fleet: {})
    assert orders[orders.index("check_slots") :] == ["check_slots", "load", "check_dcgm"]
    assert document["hosts"]["h1"]["dcgm"]["diagnostic"]["value"]["output"] == "no JSON\n"
    found = [row for row in judge(fleet_from_json(document), "full", Asked(("inv",))) if row.check == "dcgm diag"]
    assert [(row.status, row.where) for row in found] == [(Status.UNCHECKED, ("h1",))]


def test_what_has_no_time_left_is_not_run_with_that_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    discovery = discovered(tmp_path, monkeypatch)
    scope = CheckScope("full", TimeBudget(30.0, time.monotonic()), outputs=True)
    document = exchange(discovery.rows, discovery.take(), scope, records=lambda _fleet: {})
    checked = fleet_from_json(document)
    assert (checked.matrix, checked.hosts[0].readings, checked.hosts[0].outputs) == (None, {}, {})
    found = judge(checked, "full", Asked(("inv",)))
    late = [row for row in found if row.check in ("cpu", "memory", "own name")]
    assert {(row.status, row.value, row.broken) for row in late} == {
        (Status.UNCHECKED, "no time left of --within 30s", True)
    }
    assert len(late) == 3


@pytest.mark.parametrize(
    "lacks", [("readings",), ("reached",), ("readings", "reached"), ("clock", "readings", "reached", "counters")]
)
def test_every_rule_takes_hosts_of_which_a_part_was_left_out(lacks: tuple[str, ...]) -> None:
    empty: dict[str, Any] = {part: {} for part in lacks}
    rows = tuple(replace(host, late=LATE, **empty) for host in fleet(3).hosts)
    found = judge(replace(fleet(3), hosts=rows, late=LATE), "full", Asked(("inv",)))
    assert {row.value for row in found if row.broken} == {LATE}
    assert not [row for row in found if row.status in (Status.FAIL, Status.WARN)]


def test_records_are_not_read_where_hosts_get_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Fleet] = []

    def records(fleet: Fleet) -> dict[tuple[str, str], float]:
        asked.append(fleet)
        return {}

    for record in (True, False):
        discovery = discovered(tmp_path, monkeypatch)
        exchange(discovery.rows, discovery.take(), CheckScope("full", record=record), records=records)
    assert [host.name for fleet in asked for host in fleet.hosts] == ["h1"]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("", "no answer to check_read within 1 s"),
        ("exit 3", "the connection ended during check_read"),
        ("echo no frame", "it sent bytes that are no frame"),
        ("""echo '{"t":"refused","message":"no"}'""", "check_read: no"),
        ("""echo '{"t":"check_read","n":2}'; printf '[]'""", "no JSON object"),
    ],
)
def test_a_host_that_does_not_answer_is_lost_with_the_reason(says: str, why: str) -> None:
    talk = Exchange({"h1": channel("h1", f"echo 'DDP-PLAY-CHANNEL 1'; {says or ':'}; exec sleep 60")})
    try:
        limit_s = 1.0 if "within 1 s" in why else 30.0
        assert talk.documents("check_read", {"h1": {}}, limit_s=limit_s) == {}
        assert why in talk.lost["h1"]
        began = time.monotonic()
        assert talk.documents("check_reach", {"h1": {}}, limit_s=30.0) == {}
        assert time.monotonic() - began < 10
    finally:
        talk.close()


def test_a_host_that_rests_hears_something_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host ends a channel on which nothing comes, and another host may need longer than that."""
    monkeypatch.setattr(check_exchange, "TELL_S", 0.2)
    heard = tmp_path / "heard"
    resting = f"echo 'DDP-PLAY-CHANNEL 1'; cat > {heard}"
    busy = """echo 'DDP-PLAY-CHANNEL 1'; sleep 2; echo '{"t":"check_read","n":2}'; printf '{}'; exec sleep 60"""
    talk = Exchange({"h1": channel("h1", resting), "h2": channel("h2", busy)})
    try:
        assert talk.documents("check_read", {"h2": {}}, limit_s=30.0) == {"h2": {}}
        wait_until(lambda: heard.read_bytes().count(b"check_clock") > 1, timeout_s=20)
    finally:
        talk.close()
    assert not talk.lost


def test_a_program_under_load_has_the_whole_time_that_is_left_and_ends_before_it() -> None:
    talk = Exchange({}, budget=TimeBudget(60.0, time.monotonic() + 43.0))
    assert 30 < talk.cap_s(60.0) < 39
    assert talk.cap_s(5.0) == 5.0
    assert Exchange({}).cap_s(45.0) == 45.0


def test_a_check_whose_caller_is_gone_asks_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    discovery = discovered(tmp_path, monkeypatch)
    talk = Exchange(discovery.take())
    try:
        assert talk.clocks(["h1"])
        monkeypatch.setattr(os, "getppid", lambda: 1 if talk.parent != 1 else 2)
        with pytest.raises(Interrupted, match="has ended"):
            talk.clocks(["h1"])
    finally:
        talk.close()
