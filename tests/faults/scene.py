"""One row, played: start the run, do the fault in the middle of an epoch, measure what comes of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ddp_play.planning.plan_document import ranks_by_host
from tests.endings import kill_each
from tests.faults.measuring import measure
from tests.faults.stage import CHATTER, COMMAND, HOSTS, VICTIM
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.faults.measured import Measured
    from tests.faults.rows import Row
    from tests.faults.stage import Stage

UNDER_WAY_STEP = 10
START_S = 180.0
END_S = 240.0


@dataclass
class Scene:
    """A row on a stage."""

    row: Row
    stage: Stage
    root: Path
    run: str = ""
    fault_at: float = 0.0
    child: subprocess.Popen[bytes] | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # what a fault must remember for `after` and `check`
    down: set[str] = field(default_factory=set)  # hosts that nobody can reach when the run ends

    options: tuple[str, ...] = ()  # further words for `ddp-play run`

    def __post_init__(self) -> None:
        self.options = self.row.options
        words = "".join(c if c.isalnum() else "-" for c in self.row.name.lower())
        self.run = self.run or f"{words[:30].strip('-')}-{secrets.token_hex(3)}"
        self.screen = self.root / "screen"

    # -- starting ------------------------------------------------------------------------------------
    def playbook(self) -> Path:
        """train.yml of this row."""
        source = self.root / "source"
        source.mkdir(exist_ok=True)
        for script in (VICTIM, CHATTER):
            shutil.copy(script, source)
        variables = {
            "source": str(source),
            "command": ["python3", "victim.py", *self.row.victim],
            "env": {"OMP_NUM_THREADS": "1"},
            **self.row.job,
        }
        made = self.stage.job(variables, containers=self.row.containers and self.stage.name == "lab")
        role = {"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{k}": v for k, v in made.items()}}
        play: dict[str, Any] = {"hosts": "ranks", "gather_facts": False, "roles": [role]}
        if self.row.secrets:
            (self.root / "secrets.yml").write_text(json.dumps({"ddp_job_secrets": dict(self.row.secrets)}))
            play["vars_files"] = ["secrets.yml", *self.notes.get("vars_files", ())]
        path = self.root / "train.yml"
        path.write_text(json.dumps([play]))
        return path

    def start(self) -> None:
        """`ddp-play run` in the foreground, its screen in a file."""
        self.play("run", str(self.playbook()), *self.stage.run_options, "--name", self.run, *self.options)

    def play(self, *words: str) -> None:
        """A ddp-play command as the one in the foreground now."""
        with self.screen.open("ab") as screen:
            self.child = self.popen(words, screen)

    def popen(self, words: tuple[str, ...], screen: IO[bytes]) -> subprocess.Popen[bytes]:
        """A ddp-play command beside the one in the foreground."""
        return subprocess.Popen(
            [COMMAND, *words],
            cwd=self.root,
            env=self.stage.environment(),
            stdin=subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )

    # -- looking -------------------------------------------------------------------------------------
    @property
    def bundle(self) -> Path:
        """The run's directory on the controller."""
        return self.stage.home / "runs" / self.run

    def document(self) -> dict[str, Any]:
        """run.json."""
        try:
            value: dict[str, Any] = json.loads((self.bundle / "run.json").read_text())
        except (OSError, ValueError):
            return {}
        return value

    def events(self, kind: str) -> list[dict[str, Any]]:
        """events.jsonl, one kind."""
        with contextlib.suppress(OSError):
            rows = [json.loads(line) for line in (self.bundle / "events.jsonl").read_text().splitlines()]
            return [row for row in rows if row["type"] == kind]
        return []

    @staticmethod
    def read(path: Path) -> bytes:
        """A file of the bundle, empty if it is not there."""
        try:
            return path.read_bytes()
        except OSError:
            return b""

    def log(self, rank: int) -> bytes:
        """A rank's log as the controller has it now."""
        return self.read(self.bundle / "logs" / f"rank-{rank}.log")

    def step(self, rank: int = 0) -> int:
        """The last step a rank told of."""
        found = re.findall(rb"^rank \d+ step (\d+) ", self.log(rank)[-4096:], re.MULTILINE)
        return int(found[-1]) if found else -1

    @property
    def first(self) -> Path:
        """Where the first attempt's files are: put away when another attempt has followed."""
        put_away = self.bundle / "attempts" / "1"
        return put_away if put_away.exists() else self.bundle

    def hosts_of_ranks(self) -> dict[int, str]:
        """The first attempt's ranks in the plan."""
        plan = json.loads((self.first / "plan.json").read_text())
        return {rank: name for name, ranks in ranks_by_host(plan).items() for rank in ranks}

    def host_dir(self, host: str) -> str:
        """Where the program on the host keeps its things; root has a place of its own."""
        return "/var/lib/ddp-play" if "-b" in self.options else self.stage.host_dir(host)

    @property
    def token(self) -> str:
        """What tells this run from others of its name."""
        return str(json.loads((self.bundle / "run.json").read_text())["token"])

    def place(self, host: str, attempt: int = 1) -> str:
        """The run's directory on a host."""
        return f"{self.host_dir(host)}/runs/{self.run}.{self.token}/{attempt}.{host}"

    def state(self, host: str, attempt: int = 1) -> dict[str, Any]:
        """What the guard there says."""
        value: dict[str, Any] = json.loads(self.stage.on(host, f"cat {self.place(host, attempt)}/state.json"))
        return value

    def rank_process(self, rank: int, attempt: int = 1) -> tuple[str, int]:
        """(host, pid there) of the Python process of a rank; a container's first process is its init."""
        host = self.hosts_of_ranks()[rank]
        row = self.state(host, attempt)["ranks"][str(rank)]
        if self.row.job.get("launcher") == "torchrun" and self.stage.name != "lab":
            return host, self._of_torchrun(rank)
        if not row["container"]:
            return host, int(row["pid"])
        return host, int(self.stage.on(host, f"pgrep -P {row['pid']}").split()[0])

    def _of_torchrun(self, rank: int) -> int:
        """The process that torchrun started for a rank: torchrun, its parent, has the first rank of its host, too."""
        marks = {f"DDP_PLAY_RUN_ID={self.run}".encode(), f"RANK={rank}".encode()}
        found = {
            int(entry.name): int(self.read(entry / "stat").rpartition(b")")[2].split()[1])
            for entry in Path("/proc").glob("[0-9]*")
            if marks <= {*self.read(entry / "environ").split(b"\0")}
        }
        return next(pid for pid, parent in found.items() if parent in found)

    # -- acting --------------------------------------------------------------------------------------
    def mark(self) -> None:
        """The fault happens now; of several the first counts."""
        self.fault_at = self.fault_at or time.time()

    def signal_rank(self, rank: int, name: str, attempt: int = 1) -> None:
        """Signal a rank's Python process from outside."""
        host, pid = self.rank_process(rank, attempt)
        self.mark()
        self.stage.on(host, f"kill -{name} {pid}")

    def controller_pids(self) -> list[int]:
        """Every process of this run on the controller: view, background, ansible; nothing that plays a host."""
        marks = [f"DDP_PLAY_HOME={self.stage.home}".encode(), b"DDP_PLAY_RUN_ID="]
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environment, words = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                if (
                    marks[0] in environment
                    and marks[1] not in environment
                    and not any(word in words for word in (b"\0guard\0", b"\0channel\0"))
                ):
                    found.append(int(entry.name))
        return [pid for pid in found if pid != os.getpid()]

    def login_pids(self) -> list[int]:
        """Those of them that run where the commands were typed: a Slurm job has processes of its own."""
        return [
            pid for pid in self.controller_pids() if b"SLURM_JOB_ID=" not in self.read(Path(f"/proc/{pid}/environ"))
        ]

    def keep_originals(self) -> None:
        """A second name for every rank's log on its host: the original, byte for byte, after all was cleaned."""
        for host in HOSTS:
            place, kept = self.place(host), f"{self.host_dir(host)}/kept-{self.run}"
            self.stage.on(host, f"mkdir -p {kept} && ln -f {place}/logs/rank-*.log {kept}/ 2>/dev/null; true")

    # -- the whole of it -----------------------------------------------------------------------------
    def perform(self) -> Measured:
        """Before, start, under way, fault, end; `after` whatever happened."""
        try:
            self.row.before(self)
            self.start()
            if self.row.under_way:
                self._wait_under_way()
                self.keep_originals()
            self.row.fault(self)
            code = self._wait_end()
            measured = measure(self, code)
            self.row.check(self)
        finally:
            self.row.after(self)
            self._end_everything()
        return measured

    def _wait_under_way(self) -> None:
        def there() -> bool:
            assert self.child is not None
            assert self.child.poll() is None, self.text()
            return self.step() >= UNDER_WAY_STEP

        wait_until(there, timeout_s=START_S, what=f"step {UNDER_WAY_STEP}")

    def text(self) -> str:
        """The screen so far."""
        return self.screen.read_text(errors="replace") if self.screen.exists() else ""

    def _wait_end(self) -> int:
        assert self.child is not None
        try:
            return self.child.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {END_S:.0f} s\n{self.text()[-2000:]}") from None

    def _end_everything(self) -> None:
        """Nothing of this row stays, whatever it did."""
        kill_each(self.controller_pids())
        if self.child is not None:
            self.child.wait(10)
        for host in HOSTS:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self.stage.on(host, f"rm -rf {self.host_dir(host)}/kept-{self.run}")
