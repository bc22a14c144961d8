"""Bandwidth of plain TCP between the hosts of the ranks, measured without torch in the same run.

The first ranks of all hosts form a ring. Each one sends to the next rank while it receives from the previous
one, like the ranks of a ring all-reduce. There is one connection per link, as gloo has.
"""

import fcntl
import os
import platform
import socket
import statistics
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from trainer.errors import TrainerError
from trainer.world import World

ROUNDS = 3
RAMP_S = 0.3  # start of a stream that is not counted: TCP slow start, and the burst of a traffic shaper
CHUNK = 1 << 20
TIMEOUT_S = 30.0
SIOCGIFADDR = 0x8915  # include/uapi/linux/sockios.h


@dataclass(frozen=True)
class Link:
    """One link of the ring in one direction, measured under load in both; GB/s of 10^9 bytes."""

    source: str
    target: str
    source_address: str
    target_address: str
    gb_s: float  # median of the rounds
    rounds_gb_s: list[float]


def measure_links(world: World, seconds: float) -> list[Link]:
    """All links of the ring of hosts, equal on all ranks; empty with one host or with 0 seconds per round.

    TrainerError on every rank if a connection fails.
    """
    host_names: list[Any] = [None] * world.world_size
    dist.all_gather_object(host_names, platform.node())
    first_ranks = [host_names.index(name) for name in dict.fromkeys(host_names)]
    if len(first_ranks) < 2 or seconds <= 0:
        return []
    mine: list[Any] = [None] * world.world_size
    answer = _ring(world, host_names, first_ranks, seconds) if world.rank in first_ranks else _wait_for_rounds(world)
    dist.all_gather_object(mine, answer)
    failed = [f"{host_names[rank]}: {row}" for rank, row in enumerate(mine) if isinstance(row, str)]
    if failed:
        raise TrainerError(f"plain TCP between the hosts failed: {'; '.join(failed)}")
    return [mine[rank] for rank in first_ranks]


def links_line(links: list[Link]) -> str:
    """One line for the log of rank 0."""
    rates = ", ".join(f"{link.source} -> {link.target} {link.gb_s:.3f}" for link in links)
    return f"plain TCP, all links at once, GB/s: {rates}"


def local_address(env: Mapping[str, str] = os.environ) -> str:
    """This host's address on the ranks' network: that of GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME (first name).

    Without such an interface it is the source address of the route to MASTER_ADDR; OSError if there is no route.
    """
    names = env.get("GLOO_SOCKET_IFNAME") or env.get("NCCL_SOCKET_IFNAME", "").lstrip("=")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", names.split(",")[0].encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24])
        except OSError:  # no such interface, or IPv6 only
            pass
    family = socket.AF_INET6 if ":" in env.get("MASTER_ADDR", "") else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((env.get("MASTER_ADDR", ""), 9))  # a UDP connect sends nothing; it only looks up the route
        return str(probe.getsockname()[0])


def _ring(world: World, names: list[str], first_ranks: list[int], seconds: float) -> Link | str:
    """Measure the link to the next host. An error is returned as text, because the other ranks wait for a result."""
    position = first_ranks.index(world.rank)
    next_rank = first_ranks[(position + 1) % len(first_ranks)]
    listener, endpoint = _listen()
    endpoints: list[Any] = [None] * world.world_size
    dist.all_gather_object(endpoints, endpoint)
    rounds: list[float] = []
    problem = "" if listener else str(endpoint)
    for _ in range(ROUNDS):
        dist.barrier()
        try:
            if not problem and listener is not None:
                rounds.append(_round(listener, endpoints[next_rank], seconds))
        except OSError as error:
            problem = f"{endpoints[next_rank]}: {error}"
    if listener is not None:
        listener.close()
    # A round measures received data, so the link from the previous host. Its result belongs to that host.
    received: list[Any] = [None] * world.world_size
    dist.all_gather_object(received, (problem, rounds))
    problem, rounds = received[next_rank]
    if problem or received[world.rank][0]:
        return str(problem or received[world.rank][0])
    return Link(
        source=names[world.rank],
        target=names[next_rank],
        source_address=endpoints[world.rank][0],
        target_address=endpoints[next_rank][0],
        gb_s=statistics.median(rounds),
        rounds_gb_s=rounds,
    )


def _wait_for_rounds(world: World) -> Link | str | None:
    """Take part in the collectives of `_ring` on ranks that are not the first of their host; they measure nothing."""
    ignored: list[Any] = [None] * world.world_size
    dist.all_gather_object(ignored, None)
    for _ in range(ROUNDS):
        dist.barrier()
    dist.all_gather_object(ignored, ("", []))
    return None


def _listen() -> tuple[socket.socket | None, Any]:
    try:
        address = local_address()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
    except OSError as error:
        return None, f"cannot listen: {error}"
    listener.settimeout(TIMEOUT_S)
    return listener, (address, listener.getsockname()[1])


def _round(listener: socket.socket, target: Any, seconds: float) -> float:
    """Send for `seconds` and receive at the same time; the rate of the received data in GB/s."""
    if isinstance(target, str):
        raise OSError(target)
    with closing(socket.create_connection(target[:2], timeout=TIMEOUT_S)) as sender:
        receiver, _ = listener.accept()
        with closing(receiver):
            receiver.settimeout(TIMEOUT_S)
            problem: list[OSError] = []
            thread = threading.Thread(target=_send, args=(sender, seconds, problem), daemon=True)
            thread.start()
            rate = _receive(receiver)
            thread.join(TIMEOUT_S)
            if problem:
                raise problem[0]
            return rate


def _send(sender: socket.socket, seconds: float, problem: list[OSError]) -> None:
    chunk = bytes(CHUNK)
    until = time.perf_counter() + RAMP_S + seconds
    try:
        while time.perf_counter() < until:
            sender.sendall(chunk)
        sender.shutdown(socket.SHUT_WR)
    except OSError as error:
        problem.append(error)


def _receive(receiver: socket.socket) -> float:
    """GB/s from the end of the ramp to the end of the stream; OSError if there was no data."""
    buffer = memoryview(bytearray(4 * CHUNK))
    started = time.perf_counter()
    counted, since = 0, None
    while count := receiver.recv_into(buffer):
        now = time.perf_counter()
        if since is not None:
            counted += count
        elif now - started > RAMP_S:
            since = now
    if since is None or not counted:
        raise OSError("no data received")
    return counted / (time.perf_counter() - since) / 1e9
