"""What came of a row: times, what is left on hosts, and whether every log is whole."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from tests.faults.measured import SLACK, Measured
from tests.faults.stage import HOSTS

if TYPE_CHECKING:
    from tests.faults.scene import Scene

# Everything of a run that a host can hold, one line each: kind and name. Another run of this machine may have its port.
LOOK = r"""
run={run}; dir={dir}
command -v docker >/dev/null && docker ps -aq --filter label=ddp-play.run=$run 2>/dev/null | sed 's/^/container /'
grep -lsz "^DDP_PLAY_RUN_ID=$run\$" /proc/[0-9]*/environ | sed 's/^/process /'
pgrep -f "guard $dir/runs/$run[.]" | sed 's/^/guard /'
ls -d $dir/runs/$run.* {shared} 2>/dev/null | sed 's/^/files /'
listens='$4 == "0A" && $2 ~ p {{ print $10 }}'
for socket in $(awk -v p=$(printf ':%04X$' {port}) "$listens" /proc/net/tcp /proc/net/tcp6); do
  owner=$(find /proc/[0-9]*/fd -lname "socket:\[$socket\]" 2>/dev/null | head -n 1 | cut -d / -f 3)
  whose=$(tr '\0' '\n' 2>/dev/null </proc/${{owner:-x}}/environ | sed -n 's/^DDP_PLAY_RUN_ID=//p')
  test -n "$whose" -a "$whose" != $run || echo port $socket
done
{also}
true
"""
# What all hosts of a shared directory share, or all names of one machine.
SHARED_FILES = "{shared}/.ddp-play/{run}.*"
OF_A_MACHINE = "/dev/shm/ddp-play-*/{run}.* /tmp/ddp-play-rendezvous-{run}*"


def measure(scene: Scene, code: int) -> Measured:
    """What came of the row whose foreground command ended with this code."""
    document = scene.document()
    ends = [row["ended"] for row in _first_ranks(scene, document) if row.get("ended") and row["host"] not in scene.down]
    fault_at = _announced(scene) or scene.fault_at
    remains, clean_at = _wait_clean(scene, int(document.get("head_port") or 0))
    stops = [row["time"] for row in scene.events("stop") if row["time"] >= fault_at - 1]
    last = max(ends, default=0.0)
    gone = max([row["ended"] for row in document.get("ranks", ()) if row.get("ended")], default=last)
    return Measured(
        exit_code=code,
        document=document,
        screen=scene.text(),
        detected_s=_since(fault_at, stops[0]) if stops else None,
        stopped_s=_since(fault_at, last) if last else None,
        clean_s=round(max(0.0, clean_at - gone), 1) if gone else 0.0,
        remains=remains,
        log_problems=compare_logs(scene, document) if scene.row.under_way else [],
    )


def _first_ranks(scene: Scene, document: dict[str, Any]) -> list[dict[str, Any]]:
    """How the ranks ended that the fault met: those of the first attempt."""
    if scene.first == scene.bundle:
        return list(document.get("ranks", ()))
    return list(json.loads((scene.first / "outcome.json").read_text())["ranks"])


def _announced(scene: Scene) -> float:
    for log in (scene.first / "logs").glob("rank-*.log"):
        if found := re.search(rb"^FAULT ([0-9.]+)$", scene.read(log), re.MULTILINE):
            return float(found[1])
    return 0.0


def _wait_clean(scene: Scene, port: int) -> tuple[dict[str, tuple[str, ...]], float]:
    """What is left when the row's time for cleaning is over, and when it was no more than expected."""
    expected, deadline = dict(scene.row.expected.remains), time.monotonic() + scene.row.expected.clean_s * SLACK
    while True:
        remains = {host: kinds for host in HOSTS if host not in scene.down and (kinds := look(scene, host, port))}
        if remains == expected or time.monotonic() > deadline:
            return remains, time.time()
        time.sleep(0.2)


def look(scene: Scene, host: str, port: int = 0) -> tuple[str, ...]:
    """Kinds of things of this run on a host. What all share counts for the first one that is there."""
    is_first = host == next((name for name in HOSTS if name not in scene.down), "")
    shared = [SHARED_FILES] * is_first + [OF_A_MACHINE] * (is_first or scene.stage.name != "slurm")
    script = LOOK.format(
        run=scene.run,
        dir=shlex.quote(scene.host_dir(host)),
        port=port or 1,
        shared=" ".join(shared).format(run=scene.run, shared=scene.stage.shared),
        also=scene.stage.also_left if is_first and not scene.down else "",
    )
    found = {line.split()[0] for line in scene.stage.on(host, script).splitlines()}
    if scene.stage.name == "here":  # one machine and one directory: what is one name's is not the others'
        found = found if host == HOSTS[0] or found != {"files"} else set()
    return tuple(sorted(found))


def compare_logs(scene: Scene, document: dict[str, Any]) -> list[str]:
    """Every log is a prefix of what the rank wrote; a missing tail is declared."""
    problems = []
    declared = {row["host"] for row in document.get("missing", ())} | {
        row["host"] for row in _first_ranks(scene, document) if not row.get("log_complete")
    }
    for rank, host in scene.hosts_of_ranks().items():
        if host in scene.down:
            continue
        mine = scene.read(scene.first / "logs" / f"rank-{rank}.log")
        kept = f"{scene.host_dir(host)}/kept-{scene.run}/rank-{rank}.log"
        size, digest = scene.stage.on(host, f"wc -c <{kept}; head -c {len(mine)} {kept} | sha256sum").split()[:2]
        if digest != hashlib.sha256(mine).hexdigest():
            problems.append(f"the log of rank {rank} is not what it wrote")
        elif int(size) != len(mine) and host not in declared:
            problems.append(f"{int(size) - len(mine)} bytes of rank {rank}'s log are missing, and nobody says so")
    return problems


def _since(fault_at: float, moment: float) -> float | None:
    """Seconds from the fault; hosts' clocks are compared to a fraction of a second, so never less than none."""
    return round(max(0.0, moment - fault_at), 1) if fault_at else None
