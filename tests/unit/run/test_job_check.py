"""The check of hosts before anything is started on them: asked over the channels of the run, judged by given rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import HostUnfit
from ddp_play.guard.protocol import encode
from ddp_play.planning.next_attempt import Fleet
from ddp_play.planning.refused_hosts import Refused
from ddp_play.run.job_check import Judged
from tests.unit.build import hosts, job, shared
from tests.unit.planning.test_next_attempt import raw
from tests.unit.run.conftest import OK, Make, state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.job_check import Answers
    from tests.unit.run.conftest import Stage

UNFIT = Refused("h2", "shared memory: 16 of 16 MiB free", "mount -o remount,size=50% /dev/shm")


class Rules:
    """A judge that refuses `unfit` while they are in the plan, and keeps what it was asked."""

    def __init__(self, *unfit: Refused, warnings: tuple[str, ...] = ()) -> None:
        self.unfit, self.warnings = unfit, warnings
        self.asked: list[tuple[tuple[str, ...], Answers]] = []

    def __call__(self, plan: Plan, facts: Mapping[str, HostFacts], answers: Answers) -> Judged:
        names = tuple(host.name for host in plan.hosts)
        assert set(facts) == set(names)
        self.asked.append((names, answers))
        return Judged(tuple(row for row in self.unfit if row.host in names), self.warnings)


def answering(stage: Stage) -> Stage:
    """All hosts end well, and answer the orders of a check."""
    for name, far in stage.far.items():

        def follow(_header: Any, _payload: bytes, name: str = name) -> list[bytes]:
            return [state(stage, name, **OK)]

        far.answers["follow"] = follow
        payload = json.dumps({"limits": {"value": name, "took_s": 0.1}}).encode()
        far.answers.update(
            check_read=[encode("check_read", payload)],
            check_reach=[encode("check_reach", b"{}")],
            check_end=[encode("check_end", b'{"token": {"value": ""}}')],
        )
    return stage


def written(make: Make, count: int, **values: Any) -> Stage:
    """A stage with the files that planning writes, for hosts with a shared directory; those above two are spares."""
    wanted = {"source": "/code", "spares": [f"h{n}" for n in range(3, count + 1)], **values}
    stage = make(count, facts={"shared": shared()}, **wanted)
    made = job(**{"probe": False, **wanted})
    known = {host.name: raw(host) for host in hosts(count, shared=shared())}
    write_json(stage.paths.root / "job.json", made.model_dump(mode="json"))
    write_json(stage.paths.fleet, Fleet(made, known, (), (), {}).to_json())
    return answering(stage)


def test_hosts_are_asked_for_what_ranks_need_and_take_their_files_back(make: Make) -> None:
    stage, rules = written(make, 2), Rules(warnings=("h1: own name: h1 is 127.0.1.1",))
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    ((names, answers),) = rules.asked
    assert names == ("h1", "h2")
    ended = {"token": {"value": ""}}
    assert answers["h2"] == {"readings": {"limits": {"value": "h2", "took_s": 0.1}}, "reached": {}, "ended": ended}
    read, see = stage.far["h1"].order("check_read"), stage.far["h1"].order("check_reach")
    assert read["names"] == ["h1"]
    assert {"limits", "space_shm", "token"} <= set(read["only"])
    path, word, name = read["token"]
    assert (path, name) == ("/shared", "h1")
    assert see["others"] == ["h2"]
    assert stage.far["h1"].order("check_end")["token"] == [path, word, name]
    kinds = stage.far["h1"].kinds()
    assert kinds.index("claim") < kinds.index("check_read") < kinds.index("lease_port")
    assert [event["message"] for event in stage.events("warning")] == ["h1: own name: h1 is 127.0.1.1"]
    assert stage.events("checked")[0]["refused"] == 0


def test_an_unfit_host_ends_the_run_before_anything_is_started(make: Make) -> None:
    stage = written(make, 2)
    with pytest.raises(HostUnfit, match="h2: shared memory: 16 of 16 MiB free") as caught:
        stage.supervisor(judge=Rules(UNFIT)).run()
    assert caught.value.exit_code == 69
    assert caught.value.hosts == ("h2",)
    assert "mount -o remount" in caught.value.hint
    assert "ddp_job_check: none" in caught.value.hint
    for far in stage.far.values():
        assert not {"lease_port", "prepare", "go"} & set(far.kinds())


def test_a_spare_host_takes_the_place_of_an_unfit_one(make: Make) -> None:
    stage, rules = written(make, 3), Rules(UNFIT)
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    assert [names for names, _ in rules.asked] == [("h1", "h2"), ("h1", "h3")]
    assert "prepare" not in stage.far["h2"].kinds()
    assert stage.far["h3"].order("open")["attempt"] == 1
    (event,) = stage.events("replaced")
    assert (event["hosts"], event["new"]) == ({"h2": "shared memory: 16 of 16 MiB free"}, ["h3"])
    assert stage.document["hosts"] == ["h1", "h3"]
    assert dict(read_json(stage.paths.plan)["left_out"])["h2"] == "retired: shared memory: 16 of 16 MiB free"


def test_a_replaced_host_that_did_not_confirm_its_cleanup_is_listed(make: Make) -> None:
    """It was prepared, and the probe between the hosts found that nobody reaches it."""
    stage = written(make, 4, probe=True, spares=["h4"])
    closed = [{"address": "10.0.0.3", "port": 40000, "problem": "timed out"}]
    for name in ("h1", "h3"):

        def probe(_header: Any, _payload: bytes, far: Any = stage.far[name]) -> list[bytes]:
            return [encode("probed", failed=closed if len(far.channels) == 1 else [])]

        stage.far[name].answers["probe"] = probe
    stage.far["h2"].answers["clean"] = [encode("refused", order="clean", message="read-only", error="host_not_ready")]
    assert stage.supervisor().run().status == "succeeded"
    assert "prepare" in stage.far["h2"].kinds()
    (row,) = stage.document["left_behind"]["h2"]
    assert "did not confirm the cleanup" in row


def test_spares_that_are_unfit_too_leave_none(make: Make) -> None:
    stage = written(make, 3)
    with pytest.raises(HostUnfit, match="h3: no room") as caught:
        stage.supervisor(judge=Rules(UNFIT, Refused("h3", "no room"))).run()
    assert caught.value.hosts == ("h3",)


def test_a_job_can_go_without(make: Make) -> None:
    stage, rules = written(make, 2, check="none"), Rules(UNFIT)
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    assert rules.asked == []


def test_an_answer_that_is_none_counts_as_missing(make: Make) -> None:
    stage, rules = written(make, 2), Rules()
    stage.far["h2"].answers["check_read"] = [encode("check_read", b"[1")]
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    assert rules.asked[0][1]["h2"]["readings"] == {}


def test_a_header_that_claims_to_be_the_answer_counts_as_missing_too(make: Make) -> None:
    stage, rules = written(make, 2), Rules()
    stage.far["h2"].answers["check_read"] = [b'{"t":"check_read","payload":5}\n']
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    assert rules.asked[0][1]["h2"]["readings"] == {}


def test_a_host_that_does_not_answer_in_time_is_missing_and_not_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.job_check.READ_S", 0.2)
    stage, rules = written(make, 2), Rules()
    stage.far["h2"].answers["check_read"] = []
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    ((_, answers),) = rules.asked
    assert (answers["h1"]["readings"]["limits"]["value"], answers["h2"]["readings"]) == ("h1", {})


def test_texts_of_hosts_are_cut(make: Make) -> None:
    stage, rules = written(make, 2), Rules()
    long = json.dumps({"write_state": {"value": {"problem": "x" * 9000}}}).encode()
    stage.far["h2"].answers["check_read"] = [encode("check_read", long)]
    stage.supervisor(judge=rules).run()
    assert len(rules.asked[0][1]["h2"]["readings"]["write_state"]["value"]["problem"]) < 5000


def test_of_many_hosts_each_looks_for_the_files_of_three_and_the_head_for_all(make: Make) -> None:
    stage, rules = written(make, 10, spares=[]), Rules()
    assert stage.supervisor(judge=rules).run().status == "succeeded"
    assert len(stage.far["h1"].order("check_reach")["others"]) == 9
    assert stage.far["h5"].order("check_reach")["others"] == ["h1", "h4", "h6"]
    assert stage.far["h10"].order("check_reach")["others"] == ["h1", "h9"]
