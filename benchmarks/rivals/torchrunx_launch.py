"""Runs the payload with torchrunx: `python torchrunx_launch.py SSH_CONFIG PAYLOAD ADDRESS...`.

torchrunx starts Python on the hosts by the path it has here, and hands PYTHONPATH over.
"""

from __future__ import annotations

import socket
import sys

import torchrunx
from payload import work

DISCARD_PORT = 9
AGENT_TIMEOUT_S = 300  # a minute is its default; importing torch on a busy machine takes longer


def own_address(towards: str) -> str:
    """The address this machine has on the way to a host; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, DISCARD_PORT))
        return str(probe.getsockname()[0])


def main() -> None:
    """Launch, and say what rank 0 said."""
    ssh_config, payload, *addresses = sys.argv[1:]
    # The hosts are told to call back the launcher's fully qualified name, which they need not know.
    caller = own_address(addresses[0])
    socket.getfqdn = lambda *_: caller
    launcher = torchrunx.Launcher(
        hostnames=addresses,
        workers_per_host=1,
        ssh_config_file=ssh_config,
        backend="gloo" if payload == "allreduce" else None,
        agent_timeout=AGENT_TIMEOUT_S,
        extra_env_vars={"OMP_NUM_THREADS": "1"},
    )
    print("payload-done", launcher.run(work, payload).rank(0), flush=True)


if __name__ == "__main__":
    main()
