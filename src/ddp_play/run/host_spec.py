"""Host spec: what a host needs to start its ranks, from the plan, the run, the attempt and the leased port. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import PROTOCOL, SHARED_RUNS, rank_dir_name, run_key
from ddp_play.planning.apptainer_exec import apptainer_spec
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
from ddp_play.planning.numa import VISIBLE
from ddp_play.planning.pyxis_step import pyxis_spec
from ddp_play.run.rank_env_file import render_env_file

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import HostPlan, Plan, Unit
    from ddp_play.planning.rank_environment import EnvVar
    from ddp_play.run.source_snapshot import Snapshot

# The guard waits this long for the start signal, then it cleans up.
GO_WAIT_S = 120.0
# The exit of a peer can be reported before that of the failed rank itself, whose Python takes 0.25 s to exit.
SETTLE_S = 1.0
# While all failed ranks report a lost peer, wait longer: the rank that failed first has not been reported yet.
PATIENCE_S = 2.5
# Hung ranks are frozen while their state is captured. If no stop follows within this time, the guard resumes them.
THAW_S = 15.0
SOURCE_WAIT_S = 60.0
PULL_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class HostPlace:
    """Directories of a run on one host and the user id there, as the host reported them.

    `has_files`, `has_logs`: the attempt's directory, and that of its logs, exist.
    """

    directory: str
    secrets: str
    uid: int
    has_files: bool = True
    has_logs: bool = True


def user_of_ranks(host: HostPlan, place: HostPlace) -> dict[str, Any] | None:
    """User of the host's ranks; None where they have that of the guard. `groups`: for a uid without an account."""
    uid, gid = host.user
    return None if uid == place.uid else {"uid": uid, "gid": gid, "groups": [gid]}


def _binding_spec(host: HostPlan, number: int) -> dict[str, str]:
    """What the guard binds a rank to. Containers are created with it, and a torchrun binds its ranks itself."""
    binding = host.binding(number)
    if binding is None or host.agent_template or host.rank_template.create:
        return {}
    return {"cpus": binding.cpus, "memory_nodes": binding.memory_nodes}


def slots_of(host: HostPlan) -> dict[str, Any]:
    """The slot leases that this host's ranks need: `need` of the `names`."""
    return {"names": list(host.slots), "need": min(len(host.ranks), len(host.slots))}


def gpus_of_slots(host: HostPlan) -> list[int]:
    """Numbers of the GPUs whose slots this host's ranks take; none if the job itself says which GPUs they see."""
    is_chosen = any(var.name == VISIBLE for var in host.rank_template.env)
    return [] if is_chosen else list(host.gpus[: len(host.ranks)])


def mpich_shared_memory(job: str, node: int) -> str:
    """Path of MPICH's shared memory of a node: it contains the 32-bit FNV-1a hash of the PMI job name, the run key."""
    value = 0x811C9DC5
    for byte in job.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"/dev/shm/mpich_shm_{value:x}_{node}"  # noqa: S108 - MPICH chooses this path


def shared_runs(host: HostPlan) -> list[str]:
    """Directory of all runs on the shared directory, as a path of this host; none without a shared directory."""
    return [f"{host.shared_dir}/{SHARED_RUNS}"] if host.shared_dir else []


def only_copy_on_hosts(plan: Plan) -> bool:
    """Whether each host has working directories of its own with artifacts that are nowhere else."""
    return bool(plan.source and plan.artifacts and not plan.source_shared)


def run_paths(host: HostPlan, key: str) -> list[str]:
    """Directory that all attempts of a run share, as a path of this host."""
    return [f"{directory}/{key}" for directory in shared_runs(host)]


def rows_of_shared(plan: Plan, key: str, why: str) -> dict[str, list[str]]:
    """Rows for run.json about the directory that all attempts share, by host; `why`: it is left."""
    host = next((host for host in plan.hosts if host.shared_dir), None)
    return {} if host is None else {host.name: [f"{path}: {why}" for path in run_paths(host, key)]}


@dataclass(frozen=True, slots=True)
class Launch:
    """The plan bound to one attempt of a run."""

    plan: Plan
    run_id: str
    attempt: int
    port: int
    owner: str
    created: float
    snapshot: Snapshot | None = None
    controller: str = ""
    token: str = ""
    continues: bool = False  # an earlier attempt has run: its files on the shared directory are kept
    last_hosts: frozenset[str] = frozenset()  # hosts of the last attempt whose ranks were started
    run_age_s: float = 0.0  # time since the start of the run
    queued: bool = False  # it has waited for its slots, so the older ones in the queue do not need them
    version: str = ""  # of ddp-play

    @property
    def run_key(self) -> str:
        """The run's name on hosts."""
        return run_key(self.run_id, self.token)

    def values(self, place: HostPlace) -> dict[str, str]:
        """Values of the plan's placeholders on this host."""
        return {
            RUN_ID: self.run_id,
            RUN_KEY: self.run_key,
            OWNER: self.owner,
            ATTEMPT: str(self.attempt),
            HEAD_PORT: str(self.port),
            HOST_DIR: place.directory,
            SECRETS_DIR: place.secrets,
        }

    def env(self, unit: Unit, place: HostPlace) -> tuple[EnvVar, ...]:
        """Environment of a rank or of torchrun. Only secrets have no value here: hosts get them separately."""
        values = self.values(place)
        return tuple(
            dataclasses.replace(var, value=bind(var.value, values), late=False)
            if var.late and not var.is_secret
            else var
            for var in unit.env
        )

    def host_spec(self, host: HostPlan, place: HostPlace) -> dict[str, Any]:
        """The `spec` that the host program gets."""
        plan, values = self.plan, self.values(place)
        return {
            "protocol": PROTOCOL,
            "version": self.version,
            "run": self.run_id,
            "token": self.token,
            "attempt": self.attempt,
            "continues": self.continues,
            "was_here": host.name in self.last_hosts,
            "run_age_s": self.run_age_s,
            "host": host.name,
            "owner": self.owner,
            "controller": self.controller,
            "created": self.created,
            "runtime": plan.runtime,
            "image": plan.image,
            "pull": plan.image_pull,
            "pull_timeout_s": PULL_TIMEOUT_S,
            "user": user_of_ranks(host, place),
            "slots": slots_of(host),
            "gpus": gpus_of_slots(host),
            "queued": self.queued,
            "leases": [f"port-{self.port}"] if host.name == plan.head else [],
            "source": self._source(host, values),
            "make_dirs": self._make_dirs(host, values),
            "owned_paths": self._owned_paths(host, values),
            "run_paths": run_paths(host, self.run_key),
            "head": host.name == plan.head,
            "progress": bind(host.progress, values),
            "limits": self._limits(),
            "ranks": [self._rank_spec(host, number, place) for number in host.ranks],
            "agent": self._agent_spec(host, place),
            "pmi": self._pmi_spec(host),
            "check_mpi": plan.backend == "mpi",
            "rendezvous_file": self._rendezvous_file(host, values),
        }

    def _rank_spec(self, host: HostPlan, number: int, place: HostPlace) -> dict[str, Any]:
        rank = host.rank(number)
        env = self.env(rank, place)
        return {
            "rank": number,
            "local_rank": number - host.ranks.start,
            "env_file": render_env_file(env, rank=number, host=host.name, run_id=self.run_id),
            **_binding_spec(host, number),
            **self._unit_spec(host, rank, place),
        }

    def _agent_spec(self, host: HostPlan, place: HostPlace) -> dict[str, Any] | None:
        """Spec of the torchrun that starts the host's ranks. It has the number of the first of them."""
        agent = host.agent
        return {"rank": host.ranks.start, **self._unit_spec(host, agent, place)} if agent else None

    def _unit_spec(self, host: HostPlan, unit: Unit, place: HostPlace) -> dict[str, Any]:
        values = self.values(place)
        env = self.env(unit, place)
        readable = {var.name: var.value for var in env if not var.is_secret}
        return {
            "argv": [bind(word, values) for word in (*unit.image_words, *unit.argv)],
            "env": readable,
            "secret_env": [var.name for var in env if var.is_secret],
            "workdir": bind(host.workdir, values),
            **self._image_spec(host, unit, readable, place),
            "user": user_of_ranks(host, place),
            "container": bind(unit.container, values) if unit.container else None,
            "create": [bind(word, values) for word in unit.create],
        }

    def _image_spec(self, host: HostPlan, unit: Unit, env: dict[str, str], place: HostPlace) -> dict[str, Any]:
        """What differs for a command in an image that no daemon starts. `env`: of the command; without secrets."""
        if self.plan.runtime == "pyxis":
            values = self.values(place)
            words, argv = ([bind(word, values) for word in part] for part in (unit.image_words, unit.argv))
            return pyxis_spec(words, bind(host.workdir, values), argv, env, place.directory)
        return apptainer_spec(unit.image_words, env, f"{place.directory}/{rank_dir_name(host.ranks.start)}")

    def _pmi_spec(self, host: HostPlan) -> dict[str, Any] | None:
        """Spec of the process manager of MPI ranks. It runs on the head and listens on the rendezvous port."""
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
            # writable for all users, with the sticky bit: each user has runs here
            rows = [
                {"path": f"{host.shared_dir}/{SHARED_RUNS}", "mode": 0o1777},
                # the engine mounts what is below as root, which root_squash maps to nobody: others need the x bit
                *({"path": path, "mode": 0o711} for path in run_paths(host, self.run_key)),
            ]
        if host.source_dir:
            rows.append({"path": bind(host.source_dir, values), "mode": 0o700})
        return rows

    def _owned_paths(self, host: HostPlan, values: dict[str, str]) -> list[str]:
        """Paths outside the host's run directory that the cleanup of this attempt removes.

        These are the rendezvous file (on the head) and MPICH's shared memory, which killed ranks leave behind.
        `run_paths` belong to the run and are removed after its last attempt.
        """
        urls = (self.plan.init_url, self.plan.store_url) if host.name == self.plan.head else ()
        found = [bind(url, values).removeprefix("file://") for url in urls if url.startswith("file://")]
        if self.plan.backend == "mpi":
            node = [other.name for other in self.plan.hosts].index(host.name)
            found.append(mpich_shared_memory(self.run_key, node))
        return found

    def _rendezvous_file(self, host: HostPlan, values: dict[str, str]) -> str:
        """The rendezvous file, empty if there is none. The head refuses to start with an old one."""
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
            "samples_s": plan.samples_s,
            "signal": plan.signal,
        }
