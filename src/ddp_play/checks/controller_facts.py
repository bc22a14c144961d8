"""Facts of the controller that its checks judge. A fact that could not be read is None, with the reason where known."""

from __future__ import annotations

import contextlib
import locale
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

from packaging.requirements import Requirement

from ddp_play.ansible.default_settings import control_directory, default_settings
from ddp_play.ansible.installed_collection import check_same_build, collection_root
from ddp_play.bundle.controller_user import expanded
from ddp_play.bundle.paths import home
from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.lab.base_image import debootstrap_problem, source_problem
from ddp_play.lab.docker_client import connect
from ddp_play.lab.spec import Distro

COMMAND_S = 5.0
TRIAL_BYTES = 65536
COLLECTIONS = "~/.ansible/collections:/usr/share/ansible/collections"


@dataclass(frozen=True, slots=True)
class Package:
    """An installed Python package and what ddp-play requires of it."""

    name: str
    version: str  # empty: not installed
    required: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory as this user finds it; of a missing one, the directory in which it would be created."""

    path: str
    exists: bool
    mode: int
    own: bool  # belongs to this user
    problem: str  # why this user cannot write there; empty if that was tried and done
    free_mib: int | None
    free_files: int | None  # None also where the file system has no such limit


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """What the checks of the controller know. None: unknown."""

    ssh: str | None  # version; empty: not installed
    agent_keys: int | None  # None: no agent answers
    keys: tuple[tuple[str, int], ...]  # private keys of ~/.ssh with their modes
    engine_problem: str  # empty: the engine answers
    engine_hint: str
    debian_problem: str  # why no Debian can be had for the images of `lab` and `image`; empty: one can
    debian_hint: str
    home: Directory
    shm: Directory | None
    nofile: tuple[int, int]  # soft, hard; -1: no limit
    nproc: int
    encoding: str
    locale_problem: str
    python: str
    python_required: str
    python_fits: bool
    packages: tuple[Package, ...]
    playbook_program: str  # ansible-playbook that a run starts; empty: none
    own_programs: str  # directory with the programs of this installation
    collection: str
    collection_problem: str
    control_directory: str
    ignored_config: str  # ansible.cfg that Ansible ignores: others may write to its directory
    exposed_config: str  # the one named by ANSIBLE_CONFIG, in such a directory
    synchronized: bool | None
    behind_package_s: float  # by which the clock is behind the installed files


def collect(cwd: str) -> ControllerFacts:
    """Facts of this machine and this user; starts short programs, writes one temporary file to each directory."""
    python_required = (metadata("ddp-play").get_all("Requires-Python") or [""])[0]
    engine_problem, engine_hint = _engine()
    debian_problem, debian_hint = _debian(asking=not engine_problem)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    program = shutil.which("ansible-playbook", path=default_settings(cwd).get("PATH") or os.environ.get("PATH"))
    return ControllerFacts(
        ssh=_ssh_version(),
        agent_keys=_agent_keys(),
        keys=_private_keys(expanded("~/.ssh")),
        engine_problem=engine_problem,
        engine_hint=engine_hint,
        debian_problem=debian_problem,
        debian_hint=debian_hint,
        home=look_at(home()),
        shm=look_at(Path("/dev/shm")) if Path("/dev/shm").is_dir() else None,  # noqa: S108 - looked at, not relied on
        nofile=(soft, hard),
        nproc=resource.getrlimit(resource.RLIMIT_NPROC)[0],
        encoding=sys.getfilesystemencoding(),
        locale_problem=_locale_problem(),
        python=sys.version.split()[0],
        python_required=python_required,
        python_fits=Requirement(f"python{python_required}").specifier.contains(
            sys.version.split()[0], prereleases=True
        ),
        packages=_packages(),
        playbook_program=program or "",
        own_programs=str(Path(sys.executable).parent),
        collection=str(collection_root()),
        collection_problem=_collection_problem(),
        control_directory=control_directory(cwd),
        ignored_config=_ignored_config(cwd),
        exposed_config=_exposed(os.environ.get("ANSIBLE_CONFIG", "")),
        synchronized=_synchronized(),
        behind_package_s=max(0.0, Path(__file__).stat().st_mtime - time.time()),
    )


def look_at(path: Path) -> Directory:
    """Facts of a directory, with a trial file if it exists. It is not created."""
    at = path
    while not at.exists() and at != at.parent:
        at = at.parent
    try:
        found, space = at.stat(), os.statvfs(at)
    except OSError as error:
        return Directory(str(path), False, 0, False, error.strerror or str(error), None, None)
    problem = _trial(at) if at == path else ("" if os.access(at, os.W_OK | os.X_OK) else f"{at} is not writable")
    return Directory(
        str(path),
        at == path,
        stat.S_IMODE(found.st_mode),
        found.st_uid == os.geteuid(),
        problem,
        space.f_bavail * space.f_frsize // (1024 * 1024),
        space.f_favail if space.f_files else None,
    )


def _trial(path: Path) -> str:
    """Why no file can be written there; a quota shows only so."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".ddp-play-", dir=path) as trial:
            trial.write(os.urandom(TRIAL_BYTES))
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _output(*command: str) -> tuple[int, str] | None:
    """(exit code, output) of a short program; None if it cannot be started or does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMMAND_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.returncode, (done.stdout + done.stderr).strip()


def _ssh_version() -> str | None:
    if not shutil.which("ssh"):
        return ""
    answer = _output("ssh", "-V")
    return answer[1].partition(",")[0] or None if answer else None


def _agent_keys() -> int | None:
    """Number of keys that the agent holds."""
    if not os.environ.get("SSH_AUTH_SOCK"):
        return None
    answer = _output("ssh-add", "-l")
    if answer is None or answer[0] not in (0, 1):
        return None
    return len(answer[1].splitlines()) if answer[0] == 0 else 0


def _private_keys(directory: Path) -> tuple[tuple[str, int], ...]:
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(directory.glob("id_*")):
            if path.suffix != ".pub" and path.is_file():
                found.append((str(path), stat.S_IMODE(path.stat().st_mode)))
    return tuple(found)


def _engine() -> tuple[str, str]:
    """(why the container engine cannot be used, what helps), as `lab` and `image` find it; empty if it answers."""
    try:
        connect(timeout_s=int(COMMAND_S)).close()
    except HostNotReady as error:
        return error.message, error.hint
    return "", ""


def _debian(*, asking: bool) -> tuple[str, str]:
    """(why no Debian can be had to build images on, what helps); without an engine no registry can be asked."""
    try:
        if asking:
            with contextlib.closing(connect(timeout_s=int(COMMAND_S))) as client:
                found = source_problem(client, Distro.BOOKWORM, timeout_s=int(COMMAND_S))
        else:
            found = debootstrap_problem()
    except HostNotReady as error:
        return error.message, error.hint
    return (found.message, found.hint) if found else ("", "")


def _locale_problem() -> str:
    """Why the locale of the environment cannot be used; Ansible refuses to start then."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
    except locale.Error as error:
        names = [f"{name}={os.environ[name]}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)]
        return f"{error}: {' '.join(names)}"
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return ""


def _packages() -> tuple[Package, ...]:
    rows = [Requirement(text) for text in metadata("ddp-play").get_all("Requires-Dist") or ()]
    found = []
    for row in rows:
        if row.marker and not row.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(row.name)
        except PackageNotFoundError:
            installed = ""
        fits = bool(installed) and row.specifier.contains(installed, prereleases=True)
        found.append(Package(row.name, installed, str(row.specifier), fits))
    return tuple(found)


def _collection_problem() -> str:
    """Why Ansible would load another collection than the one of this package."""
    places = os.environ.get("ANSIBLE_COLLECTIONS_PATH") or COLLECTIONS
    for place in places.split(os.pathsep):
        installed = expanded(place) / "ansible_collections" / "ddp" / "play"
        if installed.is_dir():
            try:
                check_same_build(installed / "plugins" / "action" / "run.py")
            except DdpPlayError as error:
                return error.message
    return ""


def _ignored_config(cwd: str) -> str:
    return "" if os.environ.get("ANSIBLE_CONFIG") else _exposed(str(Path(cwd, "ansible.cfg")))


def _exposed(path: str) -> str:
    """This configuration file, if every user may replace it."""
    file = expanded(path)
    with contextlib.suppress(OSError):
        if path and file.is_file() and file.absolute().parent.stat().st_mode & stat.S_IWOTH:
            return str(file)
    return ""


def _synchronized() -> bool | None:
    answer = _output("timedatectl", "show", "--property", "NTPSynchronized", "--value")
    return {"yes": True, "no": False}.get(answer[1]) if answer and re.fullmatch("yes|no", answer[1]) else None
