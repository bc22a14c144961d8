"""A link that goes down and up while it carries data: `python3 flapping_link.py GATEWAY`, as root.

It is left alone until data flow, so that what is read of the host before is as usual. It is copied to a host of a lab
and runs there alone, so it has the standard library only.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

LINK = "eth0"
# Bytes of a look that logins and answers do not reach, and a measurement does.
LOOK_S, MANY_BYTES = 0.2, 500_000
PAUSE_S = 1.0


def sent(root: str = "/") -> int:
    """Bytes that the link has sent and received."""
    counters = Path(root, "sys/class/net", LINK, "statistics")
    return sum(int((counters / name).read_text()) for name in ("tx_bytes", "rx_bytes"))


def flap(gateway: str) -> None:
    """Down and up by one program: the time between is short also on a busy host. The kernel forgets the route."""
    lines = f"link set {LINK} down\nlink set {LINK} up\nroute replace default via {gateway}\n"
    subprocess.run(["ip", "-batch", "-"], input=lines.encode(), check=False)


def step(before: int, gateway: str) -> int:
    """The bytes so far, after a flap if there are many more than before."""
    time.sleep(LOOK_S)
    now = sent()
    if now - before > MANY_BYTES:
        flap(gateway)
        time.sleep(PAUSE_S)
        now = sent()
    return now


if __name__ == "__main__":
    counted = sent()
    while True:
        counted = step(counted, sys.argv[1])
