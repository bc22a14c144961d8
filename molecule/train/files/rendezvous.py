"""A job without torch: a rendezvous at MASTER_ADDR:MASTER_PORT, where each rank gets the sum of all ranks plus one."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

DEADLINE_S = 60


def main() -> int:
    """Rank 0 collects a number from each other rank, adds, and answers all of them."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank in [int(text) for text in sys.argv[1:]]:
        return 3
    total = serve(address, world_size) if rank == 0 else ask(address, rank)
    wanted = world_size * (world_size + 1) // 2
    sys.stdout.write(f"rank {rank} of {world_size} on {socket.gethostname()}: sum {total}\n")
    Path(f"sum-{rank}.txt").write_text(f"{total}\n")
    return 0 if total == wanted else 1


def serve(address: tuple[str, int], world_size: int) -> int:
    """Rank 0: receive the number of every other rank, send all of them the sum, and return it."""
    with socket.create_server(address) as server:
        server.settimeout(DEADLINE_S)
        peers = [server.accept()[0] for _ in range(world_size - 1)]
        total = 1 + sum(int(peer.makefile().readline()) for peer in peers)
        for peer in peers:
            peer.sendall(f"{total}\n".encode())
            peer.close()
    return total


def ask(address: tuple[str, int], rank: int) -> int:
    """Other ranks: send the number and return the sum; repeat the connection until rank 0 listens."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            with socket.create_connection(address, timeout=DEADLINE_S) as peer:
                peer.sendall(f"{rank + 1}\n".encode())
                return int(peer.makefile().readline())
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
