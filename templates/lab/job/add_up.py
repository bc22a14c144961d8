"""Sum of all ranks' numbers through a socket of rank 0: shows that ranks on several hosts reach each other."""

import json
import os
import socket
import time
from pathlib import Path

RANK, WORLD_SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
PATIENCE_S = 60.0


def collect() -> int:
    """Rank 0: receive every rank's number and answer with the sum."""
    with socket.create_server(ADDRESS, backlog=WORLD_SIZE) as server:
        server.settimeout(PATIENCE_S)
        peers = [server.accept()[0] for _ in range(WORLD_SIZE - 1)]
    total = RANK + sum(int(peer.recv(32)) for peer in peers)
    for peer in peers:
        peer.sendall(str(total).encode())
        peer.close()
    return total


def contribute() -> int:
    """Other ranks: send the number to rank 0, which may not listen yet, and receive the sum."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(ADDRESS, timeout=PATIENCE_S) as connection:
                connection.sendall(str(RANK).encode())
                return int(connection.recv(32))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main() -> None:
    total = collect() if RANK == 0 else contribute()
    print(f"rank {RANK} of {WORLD_SIZE} on {socket.gethostname()}: the sum is {total}", flush=True)
    result_file = os.environ.get("DDP_PLAY_RESULT")  # set by ddp-play, not by exported scripts
    if result_file:
        Path(result_file).write_text(json.dumps({"sum": total}), encoding="utf-8")


if __name__ == "__main__":
    main()
