"""The exchange of a check with the real program on this machine, and with hosts that stop to answer."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.checks.check_exchange import Exchange, exchange
from ddp_play.checks.check_levels import judge
from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import fleet_from_json
from ddp_play.planning.remedy_text import Asked
from ddp_play.run.discovery import Discovery, Query
from ddp_play.run.host_channel import ProcessChannel
from ddp_play.run.host_program import shell_command
from ddp_play.run.route import Route

if TYPE_CHECKING:
    from pathlib import Path

HERE = ("/bin/sh", "-c")


def channel(host: str, command: str) -> ProcessChannel:
    return ProcessChannel(Route(host, HERE, command))


def test_a_host_from_its_facts_to_its_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    shared = tmp_path / "shared"
    shared.mkdir()
    discovery = Discovery(60)
    wanted = {"engine": False, "shared_dir": str(shared)}
    discovery.ask(Query(Route("h1", HERE, shell_command(sys.executable, "channel")), "127.0.0.1", wanted, {}))
    discovery.refuse("h2", {"kind": "unreachable", "message": "Connection refused", "hint": "sshd"})
    discovery.finish()
    document = exchange(discovery.rows, discovery.take())
    assert "lost" not in document["hosts"]["h1"]
    assert document["hosts"]["h1"]["clock"]["trip_s"] < 10
    found = judge(fleet_from_json(document), "quick", Asked(("inv",)))
    assert [row.where for row in found if row.check == "host reached"] == [("h1",), ("h2",)]
    broken = [(row.check, row.value) for row in found if row.broken]
    assert broken == []
    passed = {row.check for row in found if row.status is Status.OK}
    assert {"state directory", "shared directory", "files of the check", "clock", "cpu", "memory"} <= passed
    assert list(shared.iterdir()) == []


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
