"""Every file name of a run's directory, and where runs live."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_play.errors import UsageError

RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}\Z")


def home() -> Path:
    """Where ddp-play keeps its runs: $DDP_PLAY_HOME, else the user's state directory."""
    if explicit := os.environ.get("DDP_PLAY_HOME"):
        return Path(explicit).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "ddp-play"


def check_run_id(name: str) -> str:
    """The name itself when it can be a directory and a label; UsageError otherwise."""
    if not RUN_ID.fullmatch(name) or ".." in name:
        raise UsageError(
            f"{name!r} cannot be a run name",
            hint="use lower-case letters, digits, '-', '_' and '.', at most 48, starting with a letter or digit",
        )
    return name


def write_bytes(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write beside the target and rename: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, mode: int = 0o600) -> None:
    """The same for text."""
    # a caller's environment may hold any bytes: Python hands them over as surrogates
    write_bytes(path, text.encode("utf-8", "surrogateescape"), mode=mode)


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """`value` as one JSON document, atomically. Without indent it is written five times as fast."""
    write_text(path, json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The document, or an empty one where there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class RunPaths:
    """One run's directory, which is also the bundle of its results."""

    root: Path

    @classmethod
    def of(cls, run_id: str) -> RunPaths:
        """The directory of a run by its id; it need not exist."""
        return cls(home() / "runs" / check_run_id(run_id))

    @property
    def run_id(self) -> str:
        """The run's id is its directory's name."""
        return self.root.name

    @property
    def run(self) -> Path:
        """run.json: status, verdict, times, argv, inventory source, versions."""
        return self.root / "run.json"

    @property
    def plan(self) -> Path:
        """plan.json: the job bound to hosts."""
        return self.root / "plan.json"

    @property
    def events(self) -> Path:
        """events.jsonl: what happened, in order."""
        return self.root / "events.jsonl"

    @property
    def channels(self) -> Path:
        """channels.json: how each host is reached, for `attach`; no secrets."""
        return self.root / "channels.json"

    @property
    def lock(self) -> Path:
        """Held by whoever supervises the run."""
        return self.root / "supervisor.lock"

    @property
    def control(self) -> Path:
        """Orders for the supervisor: `stop`, `stop-now`."""
        return self.root / "control"

    @property
    def ansible(self) -> Path:
        """ansible-runner's private data directory."""
        return self.root / "ansible"

    @property
    def supervisor_log(self) -> Path:
        """What the background process itself had to say."""
        return self.root / "supervisor.log"

    @property
    def counters(self) -> Path:
        """counters.json: what each host's networks had carried when the ranks started."""
        return self.root / "counters.json"

    @property
    def artifacts(self) -> Path:
        """Files the job left in its working directory, one folder per host."""
        return self.root / "artifacts"

    def log(self, rank: int) -> Path:
        """Everything the rank printed, byte for byte."""
        return self.root / "logs" / f"rank-{rank}.log"

    def agent_log(self, host: str) -> Path:
        """What a host's torchrun itself printed, where one started the ranks."""
        return self.root / "logs" / f"torchrun-{host}.log"

    def times(self, rank: int) -> Path:
        """When which part of the log arrived: lines of `epoch-seconds offset`."""
        return self.root / "logs" / f"rank-{rank}.times"

    def metrics(self, rank: int) -> Path:
        """What the rank reported while running, JSON lines."""
        return self.root / "metrics" / f"rank-{rank}.jsonl"

    def nccl(self, rank: int) -> Path:
        """What NCCL noted while it connected the rank: transports, devices, versions."""
        return self.root / "nccl" / f"rank-{rank}.log"

    def result(self, rank: int) -> Path:
        """What the rank reported at its end."""
        return self.root / "results" / f"rank-{rank}.json"

    def error_file(self, rank: int) -> Path:
        """The exception that torch's @record wrote for the rank."""
        return self.root / "results" / f"rank-{rank}.error.json"

    def flight_recorder(self, rank: int) -> Path:
        """The rank's last collectives as torch's flight recorder dumped them; `torchfrtrace` reads the directory."""
        return self.root / "flight-recorder" / f"rank_{rank}"

    def evidence(self, rank: int, kind: str) -> Path:
        """What a hung rank was doing before it was ended: `proc`, `stack`."""
        return self.root / "evidence" / f"rank-{rank}.{kind}"

    @property
    def flight_recorder_report(self) -> Path:
        """What torch's analysis of all ranks' dumps printed."""
        return self.root / "evidence" / "flight-recorder.txt"

    def env(self, rank: int) -> Path:
        """The rank's environment as an env-file, secrets masked."""
        return self.root / "env" / f"rank-{rank}.env"

    def attempt(self, number: int) -> RunPaths:
        """The same files of an earlier attempt; the newest is at the top."""
        return RunPaths(self.root / "attempts" / str(number))

    @property
    def fleet(self) -> Path:
        """facts.json: what another attempt's plan is made from; only of jobs that restart."""
        return self.root / "facts.json"

    @property
    def source_archive(self) -> Path:
        """source.tar: the snapshot, while another attempt may need it."""
        return self.root / "source.tar"

    def create(self) -> None:
        """Make the directory, readable by its owner only."""
        for directory in (
            self.root,
            *(self.root / name for name in ("logs", "metrics", "results", "env", "control")),
        ):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
