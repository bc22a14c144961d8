"""Orders of a check over a real channel: readings, listeners, peers, tokens, and what is left afterwards."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.checks.check_exchange import READ_S
from ddp_play.guard import gpus, leases
from ddp_play.guard.check_orders import readings
from tests.unit.guard.host_program import Line
from tests.waiting import wait_until

HERE = "127.0.0.1"
WORD = "ab" * 16


def test_two_hosts_read_and_reach_each_other(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with Line(tmp_path) as line, Line(tmp_path) as peer:
        assert isinstance(line.ask("check_clock")["clock"], float)
        tokens = {name: [str(shared), "w0rd", name] for name in ("h1", "h2")}
        for name, one in (("h1", line), ("h2", peer)):
            found = body(one, "check_read", names=["localhost"], port_range=[29500, 29510], token=tokens[name])
            assert found["write_state"]["value"]["problem"] == ""
            assert found["token"]["value"]["problem"] == ""
            assert "value" in found["cpu"]
        listening = body(peer, "check_listen", address=HERE, ports=[], word=WORD)
        row = {"name": "h2", "address": HERE, "word": WORD, "mtu": 1500, "ports": listening["chosen"],
               "datagram_port": listening["datagram_port"]}  # fmt: skip
        saw = body(line, "check_reach", peers=[row], source=HERE, limit_s=10.0, token=tokens["h1"], others=["h2"])
        assert saw["ports"]["value"] == []
        assert saw["path_mtu"]["value"]["h2"]["large"] is True
        assert saw["routes"]["value"] == {HERE: HERE}
        assert saw["tokens"]["value"]["seen"]["h2"] is not None
        assert line.ask("check_listen", address="203.0.113.1", ports=[], word=WORD)["t"] == "refused"
        assert line.ask("check_nothing")["message"] == "unknown order check_nothing"
        for name, one in (("h1", line), ("h2", peer)):
            assert body(one, "check_end", token=tokens[name])["token"]["value"] == ""
    assert list(shared.iterdir()) == []


def test_gpus_without_persistence_mode_have_the_time_that_nvidia_smi_has() -> None:
    _, limit_s = readings({"port_range": [1, 2]})["gpu_states"]
    assert gpus.SMI_S <= limit_s < READ_S, "the answer with all readings comes later"


def test_an_order_may_name_the_readings_that_it_wants(tmp_path: Path) -> None:
    with Line(tmp_path) as line:
        found = body(line, "check_read", names=[], port_range=[1, 2], only=["limits", "space_shm", "no such reading"])
        assert set(found) == {"limits", "space_shm"}


def test_a_host_whose_controller_is_lost_takes_its_file_back(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    line = Line(tmp_path)
    found = body(line, "check_read", names=[], port_range=[29500, 29510], token=[str(shared), "w0rd", "h1"])
    assert found["token"]["value"]["problem"] == ""
    assert len(list(shared.iterdir())) == 1
    line.hang_up()
    assert list(shared.iterdir()) == []


def test_readings_take_no_longer_than_the_order_says_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    for name in ("lscpu", "uname"):
        (slow / name).write_text("#!/bin/sh\nexec sleep 60\n" if name == "lscpu" else "#!/bin/sh\necho fast\n")
        (slow / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    with Line(tmp_path) as line:
        found = body(line, "check_outputs", within_s=5.0)
        assert found["lscpu"]["problem"] == "no answer within 5 s (--within)"
        assert found["uname -srvm"]["value"]["output"] == "fast\n"
        assert "value" in body(line, "check_counters", within_s=5.0)["counters"]


def test_a_port_of_a_run_costs_the_program_and_not_the_host(tmp_path: Path) -> None:
    order = {"python": sys.executable, "source": "print('{}')", "order": {}, "limit_s": 20.0, "port": 29519}
    with Line(tmp_path) as line:
        with leases.hold("port-29519", "ddp-play") or pytest.fail("somebody has the lease"):
            value = body(line, "check_torch", **order)["program"]["value"]
        assert value == {"parts": [], "problem": "a run has port 29519", "busy": True}
        assert body(line, "check_torch", **order)["program"]["value"]["parts"] == [{}]


def test_the_diagnostic_of_dcgm_is_run_at_the_level_of_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dcgmi").write_text('#!/bin/sh\n[ "$3" = 1 ] || exec sleep 60\necho "$*"\n')
    (tmp_path / "dcgmi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Line(tmp_path) as line:
        only = body(line, "check_read", names=[], port_range=[1, 2], only=["dcgmi"])
        assert only["dcgmi"]["value"] == str(tmp_path / "dcgmi")
        found = body(line, "check_dcgm", level=1, limit_s=20.0, stop_s=1.0)["diagnostic"]["value"]
        assert found == {"exit_code": 0, "output": "diag -r 1 -j\n", "errors": ""}
        late = body(line, "check_dcgm", level=2, limit_s=0.5, stop_s=5.0)["diagnostic"]["value"]
        assert late["problem"] == "no end within 0.5 s"


def test_a_host_under_load_has_no_free_slot_and_says_who_has_one(tmp_path: Path) -> None:
    scope = f"ddp-play/{hashlib.sha256(bytes(tmp_path)).hexdigest()[:16]}"
    names, ours = ["gpu-GPU-1", "slot-0", "slot-1"], f"ddp-play check of {getpass.getuser()}"
    with Line(tmp_path) as line, Line(tmp_path) as other:
        with leases.hold("slot-1", scope) or pytest.fail("somebody has the slot") as held:
            held.answer()
            assert body(line, "check_slots", names=names) == {
                "users": [f"process {os.getpid()} of {getpass.getuser()}"]
            }
            assert leases.slots_problem(names, 2, scope) == "", "it holds all slots or none"
        for _ in range(2):
            assert body(line, "check_slots", names=names) == {"users": []}, "its own slots do not count"
        assert leases.slots_problem(names, 1, scope) == f"0 of 3 slots free and 1 needed; held by {ours}"
        assert body(other, "check_slots", names=names) == {"users": [ours]}
        body(line, "check_end")
        assert leases.slots_problem(names, 1, scope), "the load comes after it"
        line.hang_up()
        wait_until(lambda: leases.slots_problem(names, 3, scope) == "", timeout_s=10)


def test_a_run_that_lives_uses_a_host_whatever_its_slots_are_called(tmp_path: Path) -> None:
    used = tmp_path / "runs" / "night.0123456789abcdef" / "1.h1"
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "x.pyc", "guard", str(used)]
    with Line(tmp_path) as line, subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        answer = body(line, "check_slots", names=["slot-0"])
        process.kill()
    assert answer == {"users": [f"run night of {getpass.getuser()}"]}


def body(line: Line, kind: str, **fields: Any) -> dict[str, Any]:
    """The JSON object that an order is answered with."""
    line.order(kind, **fields)
    header, payload = line.frame()
    assert header["t"] == kind
    found: dict[str, Any] = json.loads(payload)
    return found
