"""The machines by hand: `python -m tests.vm up`, `ssh vm1 [COMMAND]`, `down`."""

from __future__ import annotations

import os
import sys

from ddp_play.errors import DdpPlayError

from .image import ensure_image
from .machines import load, start
from .needs import missing
from .places import cache
from .site import write_inventory

USAGE = "python -m tests.vm up | ssh vm1|vm2|nfs1 [COMMAND...] | down"


def main(words: list[str]) -> str:
    """The last line to print; SystemExit with a reason."""
    directory = cache() / "cluster"
    found = load(directory)
    match words:
        case ["up"]:
            if reason := missing():
                sys.exit(reason)
            found = found or start(ensure_image(cache()), directory)
            found.await_boot()
            return f"inventory: {write_inventory(found)}"
        case ["ssh", name, *command]:
            if found is None:
                sys.exit("no machines are running: python -m tests.vm up")
            port = str(found.machine(name).port)
            os.execvp("ssh", ["ssh", *found.ssh_options, "-i", str(found.key), "-p", port, "root@127.0.0.1", *command])
        case ["down"]:
            if found is not None:
                found.end()
            return "no machines are running"
    sys.exit(USAGE)


if __name__ == "__main__":
    try:
        sys.stdout.write(main(sys.argv[1:]) + "\n")
    except DdpPlayError as error:
        sys.exit(str(error))
