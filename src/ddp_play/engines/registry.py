"""The engines by name, and the engine of a route. A new engine has a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.engines.slurm import SlurmEngine
from ddp_play.engines.ssh import SshEngine
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from ddp_play.engines.interface import Engine
    from ddp_play.engines.route import Route

SSH = SshEngine()
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (SSH, SlurmEngine())}


def engine_named(name: str) -> Engine:
    """The engine of this name. UsageError if there is none."""
    if name not in ENGINES:
        raise UsageError(f"no engine {name}", hint=f"the engines are {', '.join(ENGINES)}")
    return ENGINES[name]


def engine_of(route: Route) -> Engine:
    """The engine that opens the channels of a route; ssh if no other does."""
    return next((engine for engine in ENGINES.values() if engine.carries(route)), SSH)
