"""Rendezvous of the ranks: init method URL, explicit store, and lines for the training script. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.guard.protocol import SHARED_RUNS
from ddp_play.planning.launch_placeholders import ATTEMPT, HEAD_PORT, RUN_KEY

if TYPE_CHECKING:
    from ddp_play.planning.job import Job

TCP_STORE_SCRIPT = (
    'url = urllib.parse.urlsplit(os.environ["DDP_PLAY_STORE"])',
    "store = dist.TCPStore(url.hostname, url.port, world_size, is_master=rank == 0)",
    "dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)",
)
FILE_STORE_SCRIPT = (
    'url = urllib.parse.urlsplit(os.environ["DDP_PLAY_STORE"])',
    "store = dist.FileStore(url.path, world_size)",
    "dist.init_process_group(backend, store=store, rank=rank, world_size=world_size)",
)
MPI_SCRIPT = (
    "import mpi_backend  # trainer/mpi_backend of ddp-play, copied next to the script; it registers `mpi4py`",
    "dist.init_process_group(mpi_backend.NAME, **mpi_backend.world())  # NAME is `mpi` where torch was built with MPI",
)


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Rendezvous of a plan. `init_url` is torch's init_method, or `store` if the script builds the store itself."""

    init_url: str
    reason: str
    store_url: str = ""
    script: tuple[str, ...] = ()


def choose_rendezvous(job: Job, *, backend: str, head_addr: str, shared_dir: str) -> Rendezvous:
    """`head_addr`: address of the head on the fabric; `shared_dir`: shared directory on the head, or empty."""
    tcp = f"tcp://{f'[{head_addr}]' if ':' in head_addr else head_addr}:{HEAD_PORT}"
    if backend == "mpi":
        _check_mpi(job, head_addr)
        return Rendezvous("env://", f"MPI assigns ranks itself: {job.init_method} is not used", script=MPI_SCRIPT)
    if job.init_method == "env":
        return Rendezvous("env://", "ddp_job_init_method")
    if job.init_method == "tcp":
        return Rendezvous(tcp, "ddp_job_init_method")
    if job.init_method == "file":
        return Rendezvous(_fresh_file(shared_dir), "ddp_job_init_method, a new file for every attempt")
    if job.store == "file":
        return Rendezvous(
            "store", "FileStore, a new file for every attempt", _fresh_file(shared_dir), FILE_STORE_SCRIPT
        )
    if job.launcher == "torchrun":
        raise UsageError(
            "ddp_job_init_method is store with a TCPStore, and torchrun hosts its own store on the port of the head",
            hint="set ddp_job_store to file, or ddp_job_init_method to env (ranks then share torchrun's store)",
        )
    return Rendezvous("store", "TCPStore, hosted by rank 0", tcp, TCP_STORE_SCRIPT)


def _fresh_file(shared_dir: str) -> str:
    """File name of its own for every attempt: with a stale file the next gang fails or hangs."""
    if shared_dir:
        return f"file://{shared_dir}/{SHARED_RUNS}/{RUN_KEY}/rendezvous-{ATTEMPT}"
    return f"file:///tmp/ddp-play-rendezvous-{RUN_KEY}-{ATTEMPT}"


def _check_mpi(job: Job, head_addr: str) -> None:
    if job.launcher == "torchrun":
        raise UsageError(
            "ddp_job_backend is mpi and ddp_job_launcher is torchrun: both would assign the ranks",
            hint="set ddp_job_launcher to ranks",
        )
    if ":" in head_addr:
        raise UsageError(
            f"ddp_job_backend is mpi and the head's address is {head_addr}: MPI ranks connect over IPv4 only",
            hint="set ddp_job_network to an IPv4 network of the hosts, or use gloo",
        )


def needs_shared_file(job: Job) -> bool:
    """Does the rendezvous use a file, which ranks on several machines must share?"""
    return job.backend != "mpi" and (job.init_method == "file" or (job.init_method == "store" and job.store == "file"))
