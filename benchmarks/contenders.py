"""Launchers that benchmarks/launch.py compares: raw ssh, ddp-play, and any other one as a command."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.images.ssh_access import HostAccess, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = "/srv/ddp-play-shared"
PAYLOAD = f"{SHARED}/bench/payload.py"
TORCH_ENV = f"{SHARED}/bench/torch"
LIMIT_S = 600
PROGRAM = str(Path(sys.executable).with_name("ddp-play"))
RAW = "launch-benchmark.raw"
# Event or phase in events.jsonl -> the phase that begins there. Ansible starts before the first one.
PHASES = {
    "play": "discover and plan",
    "preparing": "prepare",
    "prepared": "give the start signal",
    "running": "ranks run",
    "collecting": "collect and clean up",
    "ended": "report",
}
_DONE = re.compile(r"payload-done ([0-9.]+)")
_RANK_DONE = re.compile(r"(?:payload|rank)-done ([0-9.]+)")


@dataclass(frozen=True)
class Bench:
    """A lab of one size, and the payload to run on it: `noop` or `allreduce`."""

    inventory: str
    home: Path
    image: str
    payload: str
    num_hosts: int

    @property
    def command(self) -> list[str]:
        """Command of a rank."""
        return ["python3", PAYLOAD, self.payload]


@dataclass(frozen=True)
class Timing:
    """Seconds from the start of the command to its end, to the end of the payload on rank 0 and on the last rank that
    ended it (None: not reported), and to the begin of each phase.
    """

    total_s: float
    payload_s: float | None
    last_s: float | None
    phases: dict[str, float] = field(default_factory=dict)


def raw(bench: Bench, attempt: int) -> Timing:
    """Parallel `ssh HOST docker run`, one container per host: the minimum of work for any launcher."""
    hosts = resolve(bench.inventory)
    head = yaml.safe_load(Path(bench.inventory).read_text())["all"]["children"]["ranks"]["hosts"][hosts[0].name]
    started = time.time()
    address, port = head["ansible_host"], 20_000 + attempt
    with ThreadPoolExecutor(len(hosts)) as pool:
        futures = [
            pool.submit(_raw_rank, bench, host, rank=rank, head=address, port=port) for rank, host in enumerate(hosts)
        ]
        ended, _ = wait(futures, timeout=LIMIT_S, return_when=FIRST_EXCEPTION)
        if len(ended) < len(futures) or any(future.exception() for future in ended):
            _raw_end(hosts)  # the other ranks would wait for the failed one
        outputs = [future.result() for future in futures]
    total = time.time() - started
    return Timing(total, _payload_s(outputs[0], started), _last_s("\n".join(outputs), started, bench.num_hosts))


def ddp_play(bench: Bench, attempt: int) -> Timing:
    """`ddp-play run` of the same command in the same image, without persistent SSH connections from before."""
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as control:
        return _timed_run(bench, f"{attempt}", control)


def again(bench: Bench, attempt: int) -> Timing:
    """The second of two runs, one after the other: Ansible's persistent SSH connections are open."""
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as control:
        _timed_run(bench, f"before-{attempt}", control)
        return _timed_run(bench, f"again-{attempt}", control)


def session(bench: Bench, attempt: int) -> Timing:
    """The second of two runs in a session, with the same SSH connections."""
    with tempfile.TemporaryDirectory(prefix="cp-", dir="/tmp") as control:
        extra = {"ANSIBLE_SSH_CONTROL_PATH_DIR": control}
        run_command([PROGRAM, "session", "-i", bench.inventory, "-d"], bench, extra)
        try:
            _timed_run(bench, f"first-{attempt}", control)
            timing = _timed_run(bench, f"session-{attempt}", control)
        finally:
            run_command([PROGRAM, "session", "-i", bench.inventory, "--end"], bench)
            time.sleep(1)
    return timing


def _timed_run(bench: Bench, suffix: str, control: str) -> Timing:
    name = f"bench-{bench.payload}-{bench.num_hosts}-{suffix}-{os.getpid()}"
    playbook = bench.home / "bench.yml"
    variables = {
        "ddp_job_name": "launch-benchmark",
        "ddp_job_image": bench.image,
        "ddp_job_image_pull": "never",
        "ddp_job_command": bench.command,
        "ddp_job_env": {"PYTHONPATH": TORCH_ENV},
    }
    role = {"role": "ddp.play.ddp_job", "vars": variables}
    play = {"name": "Benchmark", "hosts": "ranks", "gather_facts": False, "roles": [role]}
    playbook.write_text(yaml.safe_dump([play]))
    argv = [PROGRAM, "run", str(playbook), "-i", bench.inventory, "--name", name]
    timing = run_command(argv, bench, {"ANSIBLE_SSH_CONTROL_PATH_DIR": control})
    bundle = bench.home / "runs" / name
    logs = [bundle / "logs" / f"rank-{rank}.log" for rank in range(bench.num_hosts)]
    started = time.time() - timing.total_s
    texts = [log.read_text() for log in logs]
    last_s = _last_s("\n".join(texts), started, bench.num_hosts)
    return Timing(timing.total_s, _payload_s(texts[0], started), last_s, _phases(bundle / "events.jsonl", started))


def run_command(
    argv: list[str], bench: Bench, extra: dict[str, str] | None = None, *, cwd: str | None = None
) -> Timing:
    """Run a launcher: its wall time, and the time of the payload if stdout contains it; RuntimeError if it fails."""
    environment = {**os.environ, "DDP_PLAY_HOME": str(bench.home), **(extra or {})}
    started = time.time()
    try:
        done = subprocess.run(
            argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{shlex.join(argv)} did not end in {LIMIT_S} s: {error.stderr or ''!r}") from None
    total = time.time() - started
    if done.returncode != 0:
        raise RuntimeError(
            f"{shlex.join(argv)} failed with {done.returncode}:\n{done.stdout[-800:]}{done.stderr[-800:]}"
        )
    return Timing(total, _payload_s(done.stdout, started), _last_s(done.stdout, started, bench.num_hosts))


def rival(template: str) -> Callable[[Bench, int], Timing]:
    """Another launcher: a command with placeholders {inventory}, {hosts} (comma-separated), {payload}, {attempt}."""

    def run(bench: Bench, attempt: int) -> Timing:
        names = ",".join(host.name for host in resolve(bench.inventory))
        values = {"inventory": bench.inventory, "hosts": names, "payload": bench.payload, "attempt": attempt}
        return run_command([word.format(**values) for word in shlex.split(template)], bench)

    return run


def _raw_rank(bench: Bench, host: HostAccess, *, rank: int, head: str, port: int) -> str:
    environment = {
        "RANK": rank,
        "WORLD_SIZE": bench.num_hosts,
        "LOCAL_RANK": 0,
        "MASTER_ADDR": head,
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": 1,
        "PYTHONPATH": TORCH_ENV,
    }
    words = ["docker", "run", "--rm", f"--label={RAW}", "--network=host", "--ipc=host", "--init", "--user=1000:1000"]
    words += [f"--env={name}={value}" for name, value in environment.items()]
    words += ["--mount", f"type=bind,source={SHARED},target={SHARED}", bench.image, *bench.command]
    done = host.run(shlex.join(words))
    if done.returncode != 0:
        raise RuntimeError(f"{host.name}: docker run failed: {done.stderr.decode()[-800:]}")
    return done.stdout.decode()


def _raw_end(hosts: list[HostAccess]) -> None:
    """Remove the containers on all hosts after one of them failed."""
    script = f"docker ps -aq --filter label={RAW} | xargs -r docker rm -f"
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: host.run(script), hosts))


def _payload_s(text: str, started: float) -> float | None:
    found = _DONE.search(text)
    return float(found.group(1)) - started if found else None


def _last_s(text: str, started: float, num_ranks: int) -> float | None:
    """Seconds to the end of the payload on the last of all ranks; None unless all of them report it."""
    moments = [float(moment) for moment in _RANK_DONE.findall(text)]
    return max(moments) - started if len(moments) == num_ranks else None


def _phases(events: Path, started: float) -> dict[str, float]:
    """Seconds from the start of the command to the begin of each phase of a ddp-play run."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in events.read_text().splitlines()]
    found: dict[str, float] = {}
    for row in rows:
        name = PHASES.get(row.get("phase") or row["type"])
        if name:
            found.setdefault(name, row["time"] - started)
    return found
