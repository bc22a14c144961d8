"""Paths of all files of a run on the controller, and the atomic reads and writes of these files."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_play.bundle.controller_user import state_directory
from ddp_play.errors import UsageError

ATTEMPTS = "attempts"
RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}\Z")


def home() -> Path:
    """State directory of ddp-play. UsageError if the user has no home."""
    return state_directory()


def runs_dir() -> Path:
    """Directory with one directory per run."""
    return home() / "runs"


def make_directory(path: Path) -> None:
    """Make a directory. The state directory above it is the user's alone; `parents` would give it the umask's mode."""
    if path.is_relative_to(home()):
        home().mkdir(parents=True, exist_ok=True, mode=0o700)
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def check_run_id(name: str) -> str:
    """The name, if it is valid as a directory name and as a container label; UsageError otherwise."""
    if not RUN_ID.fullmatch(name) or ".." in name:
        raise UsageError(
            f"{name!r} cannot be a run name",
            hint="use lower-case letters, digits, '-', '_' and '.', at most 48, starting with a letter or digit",
        )
    return name


def write_bytes(path: Path, data: bytes | memoryview, *, mode: int = 0o600) -> None:
    """Write a temporary file in the same directory and rename it: a reader never sees half a file."""
    make_directory(path.parent)
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
    """`write_bytes` for text."""
    # a caller's environment may hold any bytes; Python represents them as surrogates
    write_bytes(path, text.encode("utf-8", "surrogateescape"), mode=mode)


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write `value` as one JSON document, atomically. Without indent this is five times as fast."""
    text = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # surrogates become escapes of JSON


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in the file; an empty one if there is no such file or it is not a JSON object."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - ten thousand of them in half the time
            value = json.loads(file.read().decode("utf-8", "surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of the list in the file; an empty list if there is no such file or it is not a JSON list."""
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return []
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Paths in the directory of one run, its bundle."""

    root: Path

    @classmethod
    def of(cls, run_id: str) -> RunPaths:
        """The paths of the run with this id; the directory need not exist."""
        return cls(runs_dir() / check_run_id(run_id))

    @property
    def run_id(self) -> str:
        """The run's id: the name of its directory, in which an earlier attempt has one of its own."""
        return (self.root.parents[1] if self.root.parent.name == ATTEMPTS else self.root).name

    @property
    def run(self) -> Path:
        """run.json: status, verdict, times, argv, inventory source, versions."""
        return self.root / "run.json"

    @property
    def job(self) -> Path:
        """job.json: the job of the run's start, from which a replacement host is planned."""
        return self.root / "job.json"

    @property
    def plan(self) -> Path:
        """plan.json: the job bound to hosts."""
        return self.root / "plan.json"

    @property
    def events(self) -> Path:
        """events.jsonl: the event journal."""
        return self.root / "events.jsonl"

    @property
    def channels(self) -> Path:
        """channels.json: the command that opens a channel to each host, for `attach`; no secrets."""
        return self.root / "channels.json"

    @property
    def engine(self) -> Path:
        """Directory of an engine's files: its script, its output, the inventory of the allocated hosts."""
        return self.root / "engine"

    @property
    def allocation(self) -> Path:
        """engine/allocation.json: the allocation that the run waits for or runs in, as its engine last said."""
        return self.engine / "allocation.json"

    @property
    def engine_start(self) -> Path:
        """engine/start.json: the host of the newest start of the controller, and the job's output before it."""
        return self.engine / "start.json"

    @property
    def engine_lock(self) -> Path:
        """File that the controller inside an allocation locks."""
        return self.engine / "controller.lock"

    @property
    def background(self) -> Path:
        """background.json: pid of the newest background process, its start, and why it could not take over."""
        return self.root / "background.json"

    @property
    def lock(self) -> Path:
        """File that the supervisor of the run locks."""
        return self.root / "supervisor.lock"

    @property
    def control(self) -> Path:
        """Directory of requests to the supervisor."""
        return self.root / "control"

    def stop_request(self, *, now: bool) -> Path:
        """Request to stop the run; `now`: without a grace period."""
        return self.control / ("stop-now" if now else "stop")

    @property
    def ansible(self) -> Path:
        """ansible-runner's private data directory."""
        return self.root / "ansible"

    @property
    def supervisor_log(self) -> Path:
        """Output of the background process itself."""
        return self.root / "supervisor.log"

    @property
    def hooks_log(self) -> Path:
        """hooks.log: what came of the run's command and webhook."""
        return self.root / "hooks.log"

    @property
    def counters(self) -> Path:
        """counters.json: network counters of each host at the start of the ranks."""
        return self.root / "counters.json"

    @property
    def background_lock(self) -> Path:
        """Locked as long as the background process runs."""
        return self.root / "background.lock"

    @property
    def outcome(self) -> Path:
        """outcome.json: how an earlier attempt ended, or how this one did while its files are being collected."""
        return self.root / "outcome.json"

    @property
    def artifacts(self) -> Path:
        """Artifacts of the job, one folder per host."""
        return self.root / "artifacts"

    @property
    def artifacts_manifest(self) -> Path:
        """artifacts.json: host, path, size and SHA-256 of every collected artifact; of symbolic links `link_to`."""
        return self.root / "artifacts.json"

    @property
    def report(self) -> Path:
        """report.html: what the run did, as a page; written after its end."""
        return self.root / "report.html"

    def log(self, rank: int) -> Path:
        """Output of the rank, byte for byte."""
        return self.root / "logs" / f"rank-{rank}.log"

    def agent_log(self, host: str) -> Path:
        """Output of a host's torchrun, if torchrun started the ranks."""
        return self.root / "logs" / f"torchrun-{host}.log"

    def times(self, rank: int) -> Path:
        """Arrival times of the rank's log: lines of `epoch-seconds offset`."""
        return self.root / "logs" / f"rank-{rank}.times"

    def metrics(self, rank: int) -> Path:
        """Metrics that the rank reported while it ran, JSON lines."""
        return self.root / "metrics" / f"rank-{rank}.jsonl"

    def samples(self, host: str) -> Path:
        """Samples of the host: CPU, memory, networks, disks and GPUs, JSON lines of all attempts."""
        return self.root / "samples" / f"{host}.jsonl"

    @property
    def sampled_hosts(self) -> list[str]:
        """Names of the hosts that have samples."""
        return sorted(path.stem for path in self.samples("any").parent.glob("*.jsonl"))

    @property
    def reporting_ranks(self) -> list[int]:
        """Ranks whose metrics are here."""
        names = (path.stem.rpartition("-")[2] for path in self.metrics(0).parent.glob("rank-*.jsonl"))
        return sorted(int(name) for name in names if name.isdigit())

    def nccl(self, rank: int) -> Path:
        """NCCL's debug output of the rank: transports, devices, versions."""
        return self.root / "nccl" / f"rank-{rank}.log"

    def result(self, rank: int) -> Path:
        """Result that the rank reported at its end."""
        return self.root / "results" / f"rank-{rank}.json"

    def error_file(self, rank: int) -> Path:
        """Exception of the rank, as torch's @record wrote it."""
        return self.root / "results" / f"rank-{rank}.error.json"

    def flight_recorder(self, rank: int) -> Path:
        """Dump of torch's flight recorder with the rank's last collectives; `torchfrtrace` reads the directory."""
        return self.root / "flight-recorder" / f"rank_{rank}"

    def evidence(self, rank: int, kind: str) -> Path:
        """State of a hung rank before it was ended; `kind` is `proc` or `stack`."""
        return self.root / "evidence" / f"rank-{rank}.{kind}"

    @property
    def flight_recorder_report(self) -> Path:
        """What torch's analysis of all ranks' dumps printed."""
        return self.root / "evidence" / "flight-recorder.txt"

    def env(self, rank: int) -> Path:
        """Env-file of the rank, with secrets masked."""
        return self.root / "env" / f"rank-{rank}.env"

    def attempt(self, number: int) -> RunPaths:
        """Paths of an earlier attempt. The newest attempt's files are in the bundle itself."""
        return RunPaths(self.root / ATTEMPTS / str(number))

    @property
    def attempts(self) -> list[RunPaths]:
        """Paths of all earlier attempts that are here."""
        return [RunPaths(path) for path in (self.root / ATTEMPTS).glob("*")]

    @property
    def fleet(self) -> Path:
        """facts.json: host facts for a plan without unfit or lost hosts; not of jobs without checks and restarts."""
        return self.root / "facts.json"

    @property
    def source_archive(self) -> Path:
        """source.archive: the snapshot, as long as a next attempt may need it."""
        return self.root / "source.archive"

    def create(self) -> None:
        """Create the directory and its folders, readable by the owner only."""
        for name in ("", "logs", "metrics", "results", "env", "control"):  # the first is the root
            make_directory(self.root / name)
