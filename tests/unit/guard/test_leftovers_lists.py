"""Which attempts are on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.guard import leftovers
from ddp_play.guard.run_directory import HostRun, base_dir, write_json

if TYPE_CHECKING:
    pass


def test_attempts_on_this_host() -> None:
    assert leftovers.runs() == []
    for attempt, host in ((1, "h1.example"), (2, "h1.example")):
        place = HostRun.at("night.0123456789abcdef", attempt, host)
        place.logs.mkdir(parents=True)
    (base_dir() / "runs" / "a-file").touch()
    write_json(place.spec, {"owner": "kim", "controller": "login1", "created": 12.5})
    ranks = {"0": {"state": "exited", "exit_code": 1, "signal": None, "pid": 5, "container": None, "detail": "x"}}
    write_json(place.state, {"phase": "ended", "reason": "done", "ranks": ranks})
    first, second = leftovers.runs()
    assert (first["attempt"], first["phase"], first["owner"], first["since"]) == (1, "unknown", "", 0)
    assert (first["guard_alive"], first["ranks"]) == (False, {})
    del ranks["0"]["detail"]
    assert second == {
        "run": "night",
        "token": "0123456789abcdef",
        "attempt": 2,
        "host": "h1.example",
        "elsewhere": "",
        "unknown": "",
        "path": str(place.root),
        "phase": "ended",
        "reason": "done",
        "guard_alive": False,
        "attended": False,
        "owner": "kim",
        "controller": "login1",
        "ranks": ranks,
        "since": 12.5,
        "uncollected": True,
    }
