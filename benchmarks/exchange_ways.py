"""The same work on the same hosts in two ways: rank containers under ddp-play, and bare processes over ssh."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from contenders import PROGRAM, SHARED, TORCH_ENV

if TYPE_CHECKING:
    from ddp_play.images.ssh_access import HostAccess

ROOT = Path(__file__).resolve().parents[1]
WORK = f"{SHARED}/bench/work"
SIZE = "64M"
ALLREDUCE = ("--min-bytes", SIZE, "--max-bytes", SIZE, "--seconds-per-size", "5")
PORT = 23_000


@dataclass(frozen=True)
class BenchLab:
    """A running lab with the slim image, and with torch in its shared directory."""

    inventory: str
    home: Path
    image: str
    hosts: tuple[HostAccess, ...]
    lab_name: str

    @property
    def environment(self) -> dict[str, str]:
        """Environment of ddp-play with the state directory of the benchmark."""
        return {**os.environ, "DDP_PLAY_HOME": str(self.home)}

    def addresses(self) -> list[str]:
        """IP addresses of the hosts in rank order."""
        hosts = yaml.safe_load(Path(self.inventory).read_text())["all"]["children"]["ranks"]["hosts"]
        return [hosts[host.name]["ansible_host"] for host in self.hosts]

    def shape(self, rate: str) -> None:
        """Limit the sending rate of every host (`1gbit`); an empty rate removes the limit."""
        for host in self.hosts:
            words = "qdisc del dev eth0 root"
            if rate:
                words = f"qdisc replace dev eth0 root tbf rate {rate} burst 512kb latency 100ms"
            ddp_play(self, "lab", "ssh", "--name", self.lab_name, "--user", "root", host.name, f"tc {words}")


def ddp_play(lab: BenchLab, *words: str) -> str:
    """stdout of `ddp-play WORDS...`; RuntimeError if it fails."""
    argv = [PROGRAM, *words]
    done = subprocess.run(
        argv, env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(argv)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def variables(lab: BenchLab) -> list[str]:
    """Job variables of every run as options: slim image, torch from the shared directory, one thread."""
    env = {"PYTHONPATH": TORCH_ENV, "OMP_NUM_THREADS": "1"}
    return ["-e", json.dumps({"ddp_job_image": lab.image, "ddp_job_image_pull": "never", "ddp_job_env": env})]


def bench_share(lab: BenchLab, name: str) -> dict[str, float]:
    """One `ddp-play bench`: busbw_gb_s, wire_gb_s (plain TCP) and of_wire (their ratio)."""
    words = ("bench", "-i", lab.inventory, "--name", f"b{name}", "--json", *variables(lab))
    sizes = ("--min-bytes", "16M", "--max-bytes", SIZE, "--seconds-per-size", "4")
    (run,) = json.loads(ddp_play(lab, *words, *sizes))["runs"]
    reach: dict[str, float] = run["reach"]
    return reach


def container_allreduce(lab: BenchLab, number: int) -> float:
    """busbw in GB/s of the all-reduce in rank containers under ddp-play."""
    words = ("bench", "-i", lab.inventory, "--name", f"u{number}", "--json", *variables(lab))
    sizes = ("--min-bytes", SIZE, "--max-bytes", SIZE, "--seconds-per-size", "5")
    (run,) = json.loads(ddp_play(lab, *words, *sizes))["runs"]
    return float(run["reach"]["busbw_gb_s"])


def bare_allreduce(lab: BenchLab, number: int) -> float:
    """busbw in GB/s of the same all-reduce in bare processes over ssh."""
    run_bare(lab, ("allreduce", *ALLREDUCE, "--result", f"{WORK}/result.json"), port=PORT + number)
    done = lab.hosts[0].run(f"cat {WORK}/result.json")
    return float(json.loads(done.stdout)["sweeps"][0]["rows"][-1]["busbw_gb_s"])


def training(num_steps: int, batch_size: int) -> tuple[str, ...]:
    """Trainer arguments of a training whose metrics contain every step; the batch is that of all ranks together."""
    size = ("--max-steps", str(num_steps), "--epochs", "100000", "--batch-size", str(batch_size))
    return ("train", *size, "--checkpoint-dir", "none")


def collectives(lab: BenchLab, backends: list[str]) -> dict[str, Any]:
    """Output of `ddp-play collectives --json`."""
    words = [word for backend in backends for word in ("--backend", backend)]
    document: dict[str, Any] = json.loads(
        ddp_play(lab, "collectives", "-i", lab.inventory, "--json", *words, *variables(lab))
    )
    return document


def run_bare(lab: BenchLab, words: tuple[str, ...], *, port: int) -> None:
    """Run one process per host over parallel ssh, with the environment of a ddp-play run; RuntimeError if one fails."""
    with subprocess.Popen(["tar", "-C", str(ROOT), "--exclude=__pycache__", "-c", "trainer"], stdout=-1) as tar:
        lab.hosts[0].run(f"rm -rf {WORK} && mkdir -p {WORK} && tar -C {WORK} -x", stdin=tar.stdout)  # type: ignore[arg-type]
    addresses = lab.addresses()

    def run_rank(rank: int) -> subprocess.CompletedProcess[bytes]:
        environment = {
            "RANK": rank,
            "WORLD_SIZE": len(lab.hosts),
            "LOCAL_RANK": 0,
            "MASTER_ADDR": addresses[0],
            "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": 1,
            "PYTHONPATH": TORCH_ENV,
            "PYTHONUNBUFFERED": 1,
        }
        pairs = [f"{name}={value}" for name, value in environment.items()]
        # only rank 0 writes its result or metrics: the directory is shared
        recorded = words if rank == 0 else words[:-2]
        return lab.hosts[rank].run(f"cd {WORK} && env {shlex.join([*pairs, 'python3', '-m', 'trainer', *recorded])}")

    with ThreadPoolExecutor(len(lab.hosts)) as pool:
        for done in pool.map(run_rank, range(len(lab.hosts))):
            if done.returncode != 0:
                raise RuntimeError(f"a bare rank failed: {done.stderr.decode()[-800:]}")
