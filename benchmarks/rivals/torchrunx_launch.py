"""Launch of the payload with torchrunx: `python torchrunx_launch.py SSH_CONFIG PAYLOAD ADDRESS...`.

torchrunx starts Python on the hosts at the path of this Python and passes PYTHONPATH on.
"""

from __future__ import annotations

import socket
import sys

import torchrunx
from payload import work

DISCARD_PORT = 9
AGENT_TIMEOUT_S = 300  # the default is 60 s; an import of torch on a busy machine takes longer


def own_address(towards: str) -> str:
    """Source address of this machine on the route to a host; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, DISCARD_PORT))
        return str(probe.getsockname()[0])


def main() -> None:
    """Launch the payload and print the result of rank 0."""
    ssh_config, payload, *addresses = sys.argv[1:]
    # The agents connect to the fully qualified name of the launcher, which the hosts may not resolve.
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
