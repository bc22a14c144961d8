"""Runs of all users that are on this host now, by their guards."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import List

from .leases import described
from .peer_credentials import Peer
from .running_guards import guards
from .state_directory import OF_HOST


def living_runs() -> List[str]:
    """`run calm-otter-1 of kim` for each guard of any user; of this DDP_PLAY_HOST_DIR, where there is one."""
    override, peers = os.environ.get(OF_HOST), set()
    for pid, place in guards().items():
        if not override or os.path.realpath(override) in map(str, Path(os.path.realpath(str(place.root))).parents):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                peers.add(Peer(pid, os.stat("/proc/%d" % pid).st_uid))
    return sorted(words for words in described(peers).values() if words.startswith("run "))
