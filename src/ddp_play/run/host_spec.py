"""Host specs: the plan bound to a run id, an attempt, the leased port and each host's directory. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import run_key
from ddp_play.planning.launch_placeholders import (
    ATTEMPT,
    HEAD_PORT,
    HOST_DIR,
    OWNER,
    RUN_ID,
    RUN_KEY,
    SECRETS_DIR,
    bind,
)
from ddp_play.run.rank_env_file import render_env_file

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import AgentPlan, HostPlan, Plan, RankPlan
    from ddp_play.planning.rank_environment import EnvVar
    from ddp_play.run.source_snapshot import Snapshot

# A start signal that does not come within this time never will: the guard takes everything down again.
GO_WAIT_S = 120.0
# A peer's exit can reach us before that of the rank that caused it (0.25 s of Python teardown).
SETTLE_S = 1.0
# And longer while every rank that ended blames a peer: the one it means has yet to say why.
PATIENCE_S = 2.5
# Hung ranks that were frozen for a look and that nobody ended within this go on: their controller is gone.
THAW_S = 15.0
SOURCE_WAIT_S = 60.0
PULL_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class HostPlace:
    """Where a run lives on one host, as the host answered."""

    directory: str
    secrets: str
    uid: int


def slots_of(host: HostPlan) -> dict[str, Any]:
    """Which leases this host's ranks need: so many of these names."""
    return {"names": list(host.slots), "need": min(len(host.ranks), len(host.slots))}


def mpich_shared_memory(job: str, node: int) -> str:
    """The file that the ranks of a node share: MPICH names it by the 32-bit FNV-1a hash of its PMI job, our run."""
    value = 0x811C9DC5
    for byte in job.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"/dev/shm/mpich_shm_{value:x}_{node}"  # noqa: S108 - MPICH's own place for it


def shared_runs(host: HostPlan) -> list[str]:
    """Where all runs keep what their attempts share, as this host sees it."""
    return [f"{host.shared_dir}/.ddp-play"] if host.shared_dir else []


def run_paths(host: HostPlan, key: str) -> list[str]:
    """What all attempts of the run with this key share, as this host sees it."""
    return [f"{directory}/{key}" for directory in shared_runs(host)]


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of a plan."""

    plan: Plan
    run_id: str
    attempt: int
    port: int
    owner: str
    created: float
    snapshot: Snapshot | None = None
    controller: str = ""
    token: str = ""
    continues: bool = False  # an earlier attempt has run: what it left on the shared directory is wanted

    @property
    def run_key(self) -> str:
        """The run's name on hosts."""
        return run_key(self.run_id, self.token)

    def values(self, place: HostPlace) -> dict[str, str]:
        """What the plan's tokens stand for on this host."""
        return {
            RUN_ID: self.run_id,
            RUN_KEY: self.run_key,
            OWNER: self.owner,
            ATTEMPT: str(self.attempt),
            HEAD_PORT: str(self.port),
            HOST_DIR: place.directory,
            SECRETS_DIR: place.secrets,
        }

    def env(self, unit: RankPlan | AgentPlan, place: HostPlace) -> tuple[EnvVar, ...]:
        """The environment of a rank (or torchrun) with nothing left open but secrets: those the host has in memory."""
        values = self.values(place)
        return tuple(
            dataclasses.replace(var, value=bind(var.value, values), late=False)
            if var.late and not var.is_secret
            else var
            for var in unit.env
        )

    def host_spec(self, host: HostPlan, place: HostPlace) -> dict[str, Any]:
        """What the host is told: the `spec` of the program there."""
        plan, values = self.plan, self.values(place)
        return {
            "run": self.run_id,
            "token": self.token,
            "attempt": self.attempt,
            "continues": self.continues,
            "host": host.name,
            "owner": self.owner,
            "controller": self.controller,
            "created": self.created,
            "runtime": plan.runtime,
            "image": plan.image,
            "pull": plan.image_pull,
            "pull_timeout_s": PULL_TIMEOUT_S,
            "user": self._user(host, place),
            "slots": slots_of(host),
            "leases": [f"port-{self.port}"] if host.name == plan.head else [],
            "source": self._source(host, values),
            "make_dirs": self._make_dirs(host, values),
            "owned_paths": self._owned_paths(host, values),
            "run_paths": run_paths(host, self.run_key),
            "head": host.name == plan.head,
            "limits": self._limits(),
            "ranks": [self._rank_spec(host, rank, place) for rank in host.ranks],
            "agent": self._agent_spec(host, place),
            "pmi": self._pmi_spec(host),
            "check_mpi": plan.backend == "mpi",
            "rendezvous_file": self._rendezvous_file(host, values),
        }

    def _user(self, host: HostPlan, place: HostPlace) -> dict[str, Any] | None:
        uid, gid = host.user
        return None if uid == place.uid else {"uid": uid, "gid": gid, "groups": [gid]}

    def _rank_spec(self, host: HostPlan, rank: RankPlan, place: HostPlace) -> dict[str, Any]:
        env = self.env(rank, place)
        return {
            "rank": rank.rank,
            "local_rank": rank.local_rank,
            "env_file": render_env_file(env, rank=rank.rank, host=host.name, run_id=self.run_id),
            **self._unit_spec(host, rank, place),
        }

    def _agent_spec(self, host: HostPlan, place: HostPlace) -> dict[str, Any] | None:
        """The torchrun that starts the host's ranks; it stands where its first rank does."""
        return {"rank": host.ranks[0].rank, **self._unit_spec(host, host.agent, place)} if host.agent else None

    def _unit_spec(self, host: HostPlan, unit: RankPlan | AgentPlan, place: HostPlace) -> dict[str, Any]:
        values = self.values(place)
        env = self.env(unit, place)
        return {
            "argv": [bind(word, values) for word in unit.argv],
            "env": {var.name: var.value for var in env if not var.is_secret},
            "secret_env": [var.name for var in env if var.is_secret],
            "workdir": bind(host.workdir, values),
            "user": self._user(host, place),
            "container": bind(unit.container, values) if unit.container else None,
            "create": [bind(word, values) for word in unit.create],
        }

    def _pmi_spec(self, host: HostPlan) -> dict[str, Any] | None:
        """The process manager of MPI ranks lives on the head, where a store's server would."""
        if self.plan.backend != "mpi" or host.name != self.plan.head:
            return None
        return {"address": self.plan.head_addr, "port": self.port, "size": self.plan.world_size}

    def _source(self, host: HostPlan, values: dict[str, str]) -> dict[str, Any]:
        if self.snapshot is None:
            return {"role": "none", "path": "", "collect": False}
        return {
            "role": "unpack" if host.sends_source else "wait",
            "path": bind(host.source_dir, values),
            "digest": self.snapshot.digest,
            "wait_s": SOURCE_WAIT_S,
            "collect": host.sends_source,
            "manifest": self.snapshot.manifest if host.sends_source else {},
        }

    def _make_dirs(self, host: HostPlan, values: dict[str, str]) -> list[dict[str, Any]]:
        rows = []
        if host.shared_dir:
            # all users of the shared directory keep their runs here, each his own
            rows = [
                {"path": f"{host.shared_dir}/.ddp-play", "mode": 0o1777},
                # passable, not readable: the engine's root binds what is below, and root_squash makes it nobody there
                *({"path": path, "mode": 0o711} for path in run_paths(host, self.run_key)),
            ]
        if host.source_dir:
            rows.append({"path": bind(host.source_dir, values), "mode": 0o700})
        return rows

    def _owned_paths(self, host: HostPlan, values: dict[str, str]) -> list[str]:
        """What the clean-up of this attempt removes outside this host's own directory.

        The head's rendezvous file, and MPICH's shared memory: it stays where a rank had no time to take it down.
        `run_paths` are the run's: they outlive an attempt that another one follows.
        """
        urls = (self.plan.init_url, self.plan.store_url) if host.name == self.plan.head else ()
        found = [bind(url, values).removeprefix("file://") for url in urls if url.startswith("file://")]
        if self.plan.backend == "mpi":
            node = [other.name for other in self.plan.hosts].index(host.name)
            found.append(mpich_shared_memory(self.run_key, node))
        return found

    def _rendezvous_file(self, host: HostPlan, values: dict[str, str]) -> str:
        """The file that ranks meet in, where there is one; the head sees to it that it is new."""
        urls = (self.plan.init_url, self.plan.store_url) if host.name == self.plan.head else ()
        return next((bind(url, values).removeprefix("file://") for url in urls if url.startswith("file://")), "")

    def _limits(self) -> dict[str, Any]:
        plan, timeouts = self.plan, self.plan.timeouts
        return {
            "go_wait_s": GO_WAIT_S,
            "settle_s": SETTLE_S,
            "patience_s": PATIENCE_S,
            "thaw_s": THAW_S,
            "grace_s": timeouts["grace"],
            "failure_grace_s": timeouts["failure_grace"],
            "max_duration_s": timeouts["max_duration"],
            "warn_before_s": timeouts["warn_before"],
            "warn_signal": plan.warn_signal,
            "idle_timeout_s": timeouts["idle_timeout"],
            "lease_s": timeouts["lease"],
            "signal": plan.signal,
        }
