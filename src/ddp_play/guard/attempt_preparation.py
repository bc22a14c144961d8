"""Preparation of an attempt on this host: files, source, secrets, containers, guard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import guard_link, leases, leftovers, mpi_check, rank_containers, secret_files
from .refusal import Refused
from .run_directory import HostRun, atomic_write, read_json, write_json

GUARD_START_S = 60.0  # enough on a busy host
OOM_POLICY_SINCE = 243  # version of systemd


def prepare(place: HostRun, spec: Dict[str, Any], secrets: Dict[str, str], registry: Dict[str, str]) -> Dict[str, Any]:
    """Prepare this host for `go` and return the guard's state. Raises Refused, after removing everything again."""
    try:
        check_slots(spec.get("slots") or {})
        _create_layout(place, spec)
        _unpack_source(place, spec)
        _write_secrets(place, spec, secrets)
        write_json(place.spec, spec)
        if spec["runtime"] == "docker":
            rank_containers.check_users(spec)
            rank_containers.provide_image(place, spec, registry)
            rank_containers.create(spec)
            write_json(place.spec, spec)  # with the ids of the containers
        _check_rendezvous(spec)
        return _start_guard(place)
    except Refused:
        leftovers.clean(place)
        raise
    except (OSError, tarfile.TarError) as error:
        leftovers.clean(place)
        raise Refused("cannot prepare: %s" % error, hint=_squash_hint(error, spec)) from error


def _squash_hint(error: Exception, spec: Dict[str, Any]) -> str:
    """Hint for root on a shared directory with root_squash; empty for other errors."""
    path = str(getattr(error, "filename", None) or "")
    ours = any(path.startswith(row["path"]) for row in spec.get("make_dirs", []))
    if os.geteuid() == 0 and isinstance(error, PermissionError) and ours:
        return "an NFS server with root_squash maps root to nobody: log in as the directory's owner (ansible_user)"
    return ""


def check_slots(wanted: Dict[str, Any]) -> None:
    """Raise Refused with the holders if the run's slots are not free. Takes no lease: the guard does."""
    why = leases.slots_problem(wanted.get("names", []), wanted.get("need", 0), leases.slot_scope())
    if why:
        raise Refused(why, kind="slots", hint="ddp-play run --wait waits for them; ddp-play ps -i lists who runs there")


def _create_layout(place: HostRun, spec: Dict[str, Any]) -> None:
    user = spec.get("user")
    os.umask(0o077)
    for directory in (place.root, place.control, place.logs, place.env):
        directory.mkdir(parents=True, exist_ok=True)
    _create_rank_files(place, spec)
    for row in spec.get("make_dirs", []):
        _make_dir(Path(row["path"]), int(row["mode"]), user)
    if spec.get("head"):
        for path in spec.get("run_paths", []):
            atomic_write(Path(path) / leftovers.ATTEMPT_MARK, b"%d" % spec["attempt"])
    if user and user["uid"] != os.geteuid():
        # the user of the ranks may enter, and read only the files of the ranks
        for directory in (
            place.root,
            place.root.parent,
            place.root.parent.parent,
            place.root.parent.parent.parent,
        ):
            directory.chmod(0o711)
        place.logs.chmod(0o711)


def _create_rank_files(place: HostRun, spec: Dict[str, Any]) -> None:
    user = spec.get("user")
    for rank in spec["ranks"]:
        number = int(rank["rank"])
        place.rank_dir(number).mkdir(exist_ok=True)
        place.log(number).touch()
        atomic_write(place.env / ("rank-%d.env" % number), rank.pop("env_file", "").encode("utf-8", "surrogateescape"))
        _give(place.rank_dir(number), user)
        _give(place.log(number), user)
    if spec.get("agent"):
        place.agent_log.touch()
        _give(place.agent_log, user)


def _make_dir(path: Path, mode: int, user: Optional[Dict[str, Any]]) -> None:
    if path.is_dir():
        return  # it may belong to another user: everybody may use it, only its owner may change it
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode | 0o055 if _is_another_user(user) else mode)
    _give(path, user)


def _is_another_user(user: Optional[Dict[str, Any]]) -> bool:
    """Whether the ranks run as another user and this process cannot change the owner of files."""
    return user is not None and os.geteuid() not in (0, user["uid"])


def _give(path: Path, user: Optional[Dict[str, Any]]) -> None:
    if user and os.geteuid() == 0 and user["uid"] != 0:
        os.chown(str(path), user["uid"], user["gid"])


def _unpack_source(place: HostRun, spec: Dict[str, Any]) -> None:
    """Unpack the snapshot of the source, or wait until another host has unpacked it."""
    source = spec["source"]
    archive = place.root / "src.tar"
    if source["role"] == "none":
        return
    target = Path(source["path"])
    marker = target.parent / (".complete-" + source["digest"])
    if source["role"] == "wait":
        _wait_for(marker, float(source["wait_s"]))
        return
    if marker.exists():  # by an earlier attempt, whose working directory this one continues
        return
    if not archive.exists():
        raise Refused("the source of the run is no longer at %s" % target, hint="start a new run")
    target.mkdir(parents=True, exist_ok=True)
    _extract(archive, target)
    user = spec.get("user")
    if user and os.geteuid() == 0 and user["uid"] != 0:
        for where, directories, files in os.walk(str(target)):
            for name in [".", *directories, *files]:
                os.chown(os.path.join(where, name), user["uid"], user["gid"], follow_symlinks=False)
    marker.touch()


def _extract(archive: Path, target: Path) -> None:
    with tarfile.open(str(archive)) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(str(target), filter="tar")  # a trusted archive: its links may point outside
        else:  # Python 3.9 of EL9 before the back-port of filters
            tar.extractall(str(target))
    archive.unlink()


def _wait_for(marker: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not marker.exists():
        if time.monotonic() > deadline:
            raise Refused(
                "the staged source did not appear at %s within %.0f s" % (marker.parent, wait_s),
                hint="findmnt on each host shows whether the shared directory is the same file system",
            )
        if marker.parent.is_dir():
            os.listdir(str(marker.parent))  # makes an NFS client refresh its cache
        time.sleep(0.05)


def _write_secrets(place: HostRun, spec: Dict[str, Any], secrets: Dict[str, str]) -> None:
    if secrets:
        files = {name: value.encode("utf-8", "surrogateescape") for name, value in secrets.items()}
        secret_files.write(place.secrets, files, spec.get("user"))


def _check_rendezvous(spec: Dict[str, Any]) -> None:
    """Check what would otherwise fail only after the start: the rendezvous file and MPI."""
    path = spec.get("rendezvous_file")
    if path and os.path.lexists(path):
        raise Refused(
            "the rendezvous file %s exists already: an earlier gang left it, and ranks that read it would connect to "
            "processes that have ended" % path,
            hint="remove it, or choose another run name (--name)",
        )
    if spec.get("check_mpi"):
        problem = mpi_check.problem(spec)
        if problem:
            raise Refused(
                "no MPI for the ranks: %s" % problem,
                hint="put mpi4py and an MPI library where they run (pip install mpi4py mpich), or use gloo",
            )


# -- guard -------------------------------------------------------------------------------------------


def _start_guard(place: HostRun) -> Dict[str, Any]:
    command = [sys.executable, "-I", "-S", sys.argv[0], "guard", str(place.root)]
    unit = "ddp-play-%s-%s" % (place.run_key, place.root.name.replace("@", "_"))
    with open(str(place.guard_log), "ab") as log:
        if os.geteuid() == 0 and Path("/run/systemd/system").is_dir() and shutil.which("systemd-run"):
            _start_unit(unit, command, place)
        else:
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            ).returncode = 0
    deadline = time.monotonic() + GUARD_START_S
    while time.monotonic() < deadline:
        state = guard_link.look(place)[0]
        if state and state["phase"] == "ended":
            check_slots((read_json(place.spec) or {}).get("slots") or {})
            raise Refused(state["reason"], kind="slots" if state["reason"] == leases.SLOTS_TAKEN else "busy")
        if state:
            return state
        time.sleep(0.01)
    words = place.guard_log.read_text(errors="replace").strip().splitlines()
    raise Refused("the guard did not start: %s" % (words[-1] if words else "no message"), kind="internal")


def _start_unit(unit: str, command: List[str], place: HostRun) -> None:
    """Start the guard as a transient systemd unit: own cgroup, not ended by a logout, removed when the guard ends."""
    properties = [
        "--property=KillMode=mixed",
        "--property=StandardOutput=append:%s" % place.guard_log,
        "--property=StandardError=append:%s" % place.guard_log,
        "--property=TasksMax=infinity",
        "--property=LimitMEMLOCK=infinity",
        *_memory_policy(),
    ]
    done = subprocess.run(
        ["systemd-run", "--quiet", "--collect", "--unit=" + unit, *properties, "--", *command],
        capture_output=True,
        timeout=30,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise Refused("systemd-run cannot start the guard: %s" % words, kind="internal")


def _memory_policy() -> List[str]:
    """Properties that keep the guard when the kernel kills a rank for memory: systemd would stop the whole unit."""
    done = subprocess.run(["systemctl", "--version"], capture_output=True, timeout=30, check=False)
    words = done.stdout.split()
    known = len(words) > 1 and words[1].isdigit() and int(words[1]) >= OOM_POLICY_SINCE
    return ["--property=OOMPolicy=continue"] if known else []
