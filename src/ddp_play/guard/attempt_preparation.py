"""Preparation of an attempt on this host: files, source, secrets, containers, guard."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import IO, Any, Dict, List

from . import guard_link, leases, leftovers, login_session, mpi_check, rank_containers, secret_files
from .rank_user import User, acting_as, other_user, owners
from .refusal import Refused
from .run_directory import HostRun, atomic_write, read_json, user_name, write_json
from .untrusted_paths import create_file, directory, locate, make_directory

GUARD_START_S = 60.0  # enough on a busy host
OOM_POLICY_SINCE = 243  # version of systemd
# Variables of the login that a guard needs; the user manager has an environment of its own.
KEPT_ENV = ("DDP_PLAY_HOST_DIR", "DOCKER_HOST", "PATH", "XDG_STATE_HOME")


def prepare(place: HostRun, spec: Dict[str, Any], secrets: Dict[str, str], registry: Dict[str, str]) -> Dict[str, Any]:
    """Prepare this host for `go` and return the guard's state. Raises Refused, after removing everything again."""
    try:
        _check_logout()
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


def _check_logout() -> None:
    """Refuse a host where logind would end the guard and its ranks with the controller's connection."""
    if login_session.ends_at_logout() and not login_session.lingers():
        user = user_name(os.geteuid())
        raise Refused(
            "logind ends the processes of %s at logout (KillUserProcesses=yes in logind.conf), so the ranks would end "
            "with the controller's connection" % user,
            hint="on the host: loginctl enable-linger %s; or use become (-b)" % user,
        )


def check_slots(wanted: Dict[str, Any]) -> None:
    """Raise Refused with the holders if the run's slots are not free. Takes no lease: the guard does."""
    why = leases.slots_problem(wanted.get("names", []), wanted.get("need", 0), leases.slot_scope())
    if why:
        raise Refused(why, kind="slots", hint="ddp-play run --wait waits for them; ddp-play ps -i lists who runs there")


def _create_layout(place: HostRun, spec: Dict[str, Any]) -> None:
    user = spec.get("user")
    os.umask(0o077)
    for path in (place.root, place.control, place.logs, place.env):
        path.mkdir(parents=True, exist_ok=True)
    _create_rank_files(place, spec)
    for row in spec.get("make_dirs", []):
        _make_dir(Path(row["path"]), int(row["mode"]), user)
    if spec.get("head"):
        for run_path in spec.get("run_paths", []):
            create_file(locate(Path(run_path) / leftovers.ATTEMPT_MARK), b"%d" % spec["attempt"], owners(user))
    if user and user["uid"] != os.geteuid():
        # the user of the ranks may enter, and read only the files of the ranks
        for path in (
            place.root,
            place.root.parent,
            place.root.parent.parent,
            place.root.parent.parent.parent,
        ):
            path.chmod(0o711)
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


def _make_dir(path: Path, mode: int, user: User) -> None:
    """Create a directory for the ranks' user. That of all runs stays ours: its owner can rename what is in it."""
    given = other_user(user) if not mode & stat.S_ISVTX else None
    make_directory(
        locate(path),
        _mode_for(user, mode),
        (given["uid"], given["gid"]) if given else None,
        owners(user),
    )


def _mode_for(user: User, mode: int) -> int:
    """Mode of a directory of the ranks: open to ranks whose user cannot own it."""
    return mode | 0o055 if _is_another_user(user) else mode


def _is_another_user(user: User) -> bool:
    """Whether the ranks run as another user and this process cannot change the owner of files."""
    return user is not None and os.geteuid() not in (0, user["uid"])


def _give(path: Path, user: User) -> None:
    found = other_user(user)
    if found is not None:
        os.chown(str(path), found["uid"], found["gid"])  # in a directory that is not the user's


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
    if os.path.lexists(str(marker)):  # by an earlier attempt, whose working directory this one continues
        return
    if not archive.exists():
        raise Refused("the source of the run is no longer at %s" % target, hint="start a new run")
    user = spec.get("user")
    _make_dir(target, 0o700, user)
    with open(str(archive), "rb") as packed, directory(locate(target), owners(user)) as inside, acting_as(user):
        _extract(packed, inside)
    archive.unlink()
    create_file(locate(marker), b"", owners(user))


def _extract(packed: IO[bytes], directory_fd: int) -> None:
    """Unpack with the rights of the ranks' user, who may put links into the directory meanwhile."""
    before = os.open(".", os.O_PATH | os.O_CLOEXEC)
    os.fchdir(directory_fd)
    try:
        with tarfile.open(fileobj=packed) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(".", filter="tar")  # a trusted archive: its links may point outside
            else:  # Python 3.9 of EL9 before the back-port of filters
                tar.extractall(".")
    finally:
        os.fchdir(before)
        os.close(before)


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
        elif login_session.ends_at_logout():
            _start_unit(unit, command, place, of_user=True)
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


def _start_unit(unit: str, command: List[str], place: HostRun, *, of_user: bool = False) -> None:
    """Start the guard as a transient systemd unit: own cgroup, not ended by a logout, removed when the guard ends.

    `of_user`: as a unit of the user manager, which must linger.
    """
    properties = [
        "--property=KillMode=mixed",
        "--property=StandardOutput=append:%s" % place.guard_log,
        "--property=StandardError=append:%s" % place.guard_log,
        "--property=TasksMax=infinity",
        "--property=LimitMEMLOCK=infinity",
        *_memory_policy(),
    ]
    manager, env = ["--system"], dict(os.environ)
    if of_user:
        kept = ["--setenv=%s=%s" % (name, os.environ[name]) for name in KEPT_ENV if name in os.environ]
        manager, env = ["--user", *kept], login_session.user_manager_environment()
    done = subprocess.run(
        ["systemd-run", *manager, "--quiet", "--collect", "--unit=" + unit, *properties, "--", *command],
        env=env,
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
