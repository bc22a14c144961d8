"""States of runs for tests of the screen, as the rows of a bundle make them."""

from __future__ import annotations

from typing import Any

from ddp_play.bundle.run_state import RunState
from ddp_play.cli.screen.ranks_page import Size
from ddp_play.cli.screen.screen_frame import Now, frame
from ddp_play.cli.screen.screen_state import ScreenState
from tests.unit.build import ib_host, plan

BEGIN, NOW = 1000.0, 1060.0
LOG = tuple(f"step {step} loss {2.5 / (step + 1):.4f}" for step in range(560, 591))


def running(num_hosts: int = 2, per_host: int = 4) -> RunState:
    """All ranks run, with samples of GPU servers."""
    state = RunState()
    state.take_event({"time": BEGIN, "type": "phase", "phase": "preparing"})
    facts = (ib_host(f"gpu{number}", number, num_gpus=per_host) for number in range(1, num_hosts + 1))
    state.take_plan(plan(*facts).to_json(), at=BEGIN)
    state.take_event({"time": BEGIN + 3, "type": "phase", "phase": "running"})
    for number in list(state.ranks):
        ends(state, number, state="running", how="")
    for host in state.hosts.values():
        state.take_sample(host.name, {"cores": 64, "memory_total": 512e9}, sample(host.ranks))
    rows = [{"time": BEGIN + i, "step": i * 10, "loss": 2.5 / (1 + i), "samples_per_s": 3456.7} for i in range(60)]
    state.metrics.add(rows, received=None)
    for number, rank in state.ranks.items():
        rank.line, rank.line_at, rank.step = f"step 590 loss 0.0417 of rank {number}", NOW - 2, 590.0
    return state


def sample(ranks: tuple[int, ...]) -> dict[str, Any]:
    """A row of a host's samples; each rank has a GPU."""
    return {
        "t": NOW,
        "attempt": 1,
        "cpu": 12.5,
        "memory": 230e9,
        "nics": {"ib0": [1.2e9, 1.3e9], "eth0": [1e3, 1e3]},
        "gpus": {str(gpu): {"utilization": 97 - gpu} for gpu in range(len(ranks))},
        "ranks": {str(rank): {"cpu": 1.5, "memory": 12e9} for rank in ranks},
    }


def ends(run: RunState, rank: int, **fields: Any) -> None:
    """An event of a rank: by default it exits with code 3."""
    event = {"time": BEGIN + 50, "type": "rank", "rank": rank, "host": run.ranks[rank].host}
    run.take_event({**event, "stopped": False, "ok": False, "state": "exited", "how": "exit code 3", **fields})


def shown(state: RunState, screen: ScreenState, size: Size, log: tuple[str, ...] = LOG) -> list[str]:
    """The screen as text."""
    rows = frame(state, screen, size, Now("calm-otter-123", BEGIN, NOW, log))
    return ["".join(text for text, _ in row).rstrip() for row in rows]
