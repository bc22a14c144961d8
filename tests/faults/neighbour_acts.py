"""What another user of a host and a hostile rank try, in the scene of a row."""

from __future__ import annotations

import base64
import json
import os
import pwd
import re
import shlex
from pathlib import Path

from tests.faults import hosts
from tests.faults.other_run_acts import end_training
from tests.faults.scene import Scene
from tests.faults.stage import HOSTS, SHARED
from tests.waiting import wait_until

# An ordinary user: of no group, owner of nothing.
NEIGHBOUR = 54321
# The user of ranks that are hostile: nobody.
RANKS = 65534
PROGRAM = Path(__file__).with_name("neighbour.py")
# The directory that users share, as they share /tmp: anybody may list it and make something of their own there.
OPEN_TO_ALL = ".ddp-play"
COMMON = {f"{act} {SHARED}/{OPEN_TO_ALL}" for act in ("read", "write", "block")}
# A number and an empty file in a run's shared directory: nothing worth reading, and nobody locks them.
MARKS = re.compile(r"(read|block) \S+/(\.attempt|\.complete-[0-9a-f]{64})")

TARGETS = r"""
for path in {places}; do test ! -e $path || find $path; done | sed 's/^/paths /'
pgrep -f "guard .*/runs/{run}[.]" | sed 's/^/pids /'
grep -lsz "^DDP_PLAY_RUN_ID={run}\$" /proc/[0-9]*/environ | cut -d/ -f3 | sed 's/^/pids /'
sed -n 's/^.* @\(.*ddp-play.*\)$/sockets \1/p' /proc/net/unix | sort -u
"""


# -- another user of a host --------------------------------------------------------------------------
def take_names_before(scene: Scene) -> None:
    """The neighbour has taken the names of directories that the program would use first (on hosts of their own)."""
    for path in (scene.root, scene.root.parent):
        path.chmod(0o711)
    if scene.stage.name == "lab":
        uid = scene.stage.on("h1", "id -u ops")
        names = f"/dev/shm/ddp-play-{uid} /var/tmp/ddp-play-{uid} /tmp/ddp-play-leases"
        as_neighbour = f"setpriv --reuid {NEIGHBOUR} --regid {NEIGHBOUR} --clear-groups"
        for host in HOSTS:
            scene.stage.on(host, f"rm -rf {names}; {as_neighbour} mkdir -m 777 {names}")


def neighbour_tries_everything(scene: Scene) -> None:
    """Each path, process and socket of the run on h1, by each of the neighbour's acts; then the run ends by itself."""
    targets = _targets(scene)
    assert all(targets.values()), targets
    scene.notes["tried"] = outcomes = _tried(scene, targets)
    harm = {attempt for attempt, outcome in outcomes.items() if outcome == "done" and not MARKS.fullmatch(attempt)}
    before = scene.step()
    wait_until(lambda: scene.step() > before, timeout_s=20, what="the run goes on")
    end_training(scene)
    allowed = COMMON if scene.stage.name == "lab" else set()
    assert harm <= allowed, sorted(harm - allowed)
    scene.notes["remark"] = f"{len(outcomes)} attempts"


def _targets(scene: Scene) -> dict[str, list[str]]:
    key = f"{scene.run}.{scene.token}"
    places = [f"{scene.host_dir('h1')}", f"{SHARED}/.ddp-play", f"$(ls -d /dev/shm/ddp-play-*/{key})"]
    found: dict[str, list[str]] = {"paths": [], "pids": [], "sockets": []}
    for line in scene.stage.on("h1", TARGETS.format(places=" ".join(places), run=scene.run)).splitlines():
        kind, _, name = line.partition(" ")
        found[kind].append(name)
    own = [scene.run, "guard-"] if scene.stage.name != "lab" else [""]  # others may use this machine too
    found["sockets"] = [name for name in found["sockets"] if any(word in name for word in own)] or found["sockets"]
    return found


def _tried(scene: Scene, targets: dict[str, list[str]]) -> dict[str, str]:
    program = base64.b64encode(PROGRAM.read_bytes()).decode()
    script = f"""
    file=$(mktemp /tmp/neighbour-XXXXXX); echo {program} | base64 -d >$file; chmod 644 $file
    echo {shlex.quote(json.dumps(targets))} | setpriv --reuid {NEIGHBOUR} --regid {NEIGHBOUR} --clear-groups \
      /usr/bin/python3 $file; rm $file"""
    return dict(json.loads(scene.stage.on("h1", script)))


def give_names_back(scene: Scene) -> None:
    """What the neighbour made is gone."""
    if scene.stage.name == "lab":
        for host in HOSTS:
            scene.stage.on(host, f"find /dev/shm /var/tmp /tmp -maxdepth 1 -uid {NEIGHBOUR} -exec rm -rf {{}} +")


# -- a hostile rank ----------------------------------------------------------------------------------
# Links and FIFOs in the place of everything that a rank hands over, and its own log moved away.
PLANT = """
id -u; id -G
echo weights > model-$RANK.pt
ln -s {shadow} stolen-$RANK.pt
ln -s $(dirname {shadow}) stolen-dir-$RANK
ln {shadow} linked-$RANK.pt 2>/dev/null
mkfifo fifo-$RANK.pt
of_rank=$(dirname "$DDP_PLAY_METRICS")
for name in metrics.jsonl result.json error.json nccl.log flight-recorder-$RANK .started .exited; do
  rm -f $of_rank/$name; ln -s {shadow} $of_rank/$name
done
ln -sf {shadow} $of_rank/../../logs/rank-$RANK.log 2>/dev/null
mv $of_rank/../../spec.json $of_rank/../../spec 2>/dev/null
exit 0
"""


def plant_links(scene: Scene) -> None:
    """The job's script plants links to a file that only root may read; root prepares and collects for these ranks."""
    take_names_before(scene)
    shadow = str(scene.root / "shadow")
    Path(shadow).write_text("root:a-hash-of-root:19000::::::\n")
    Path(shadow).chmod(0o600)
    scene.options += ("-e", "ddp_python=/usr/bin/python3")
    scene.notes["shadow"] = shadow
    scene.notes["contents"] = scene.stage.on("h1", f"cat {shadow}; stat -c '%a %u %g %h' {shadow}")
    source = scene.root / "source"
    source.mkdir()
    (source / "plant.sh").write_text(PLANT.format(shadow=shadow))


def nothing_foreign_is_collected(scene: Scene) -> None:
    """The bundle has what the ranks made and nothing of root; what was planted is named."""
    secret = scene.notes["contents"].splitlines()[0].encode()
    assert secret.startswith(b"root:")
    for path in scene.bundle.rglob("*"):
        assert path.is_symlink() is False, path
        assert not (path.is_file() and secret in path.read_bytes()), path
    made = sorted(path.name for path in (scene.bundle / "artifacts").rglob("*") if path.is_file())
    assert made == [f"model-{rank}.pt" for rank in range(4)]
    missing = {Path(row["path"]).name: row["why"] for row in scene.document()["missing"]}
    for name in ("metrics.jsonl", "result.json"):
        assert missing.get(name) == "is a symbolic link, which is not followed", (missing, scene.text()[-2000:])
    groups = os.getgrouplist(pwd.getpwuid(RANKS).pw_name, RANKS)  # those of a login of the ranks' user
    assert scene.log(0).split()[: 1 + len(groups)] == [b"%d" % number for number in (RANKS, *groups)]
    shadow = scene.notes["shadow"]
    assert scene.stage.on("h1", f"cat {shadow}; stat -c '%a %u %g %h' {shadow}") == scene.notes["contents"]
    hosts.sweep(scene, "h1")
