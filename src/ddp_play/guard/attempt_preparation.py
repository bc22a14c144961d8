"""Preparation of an attempt on this host: files, source, secrets, containers, images, guard."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any, Dict

from . import (
    apptainer_preparation,
    attempt_directories,
    container_creation,
    gpu_memory,
    guard_start,
    host_drain,
    host_identity,
    leftovers,
    login_session,
    mpi_check,
    pyxis_container,
    secret_files,
    slot_queue,
    source_unpacking,
)
from .refusal import Refused
from .run_directory import HostRun, user_name, write_json

if TYPE_CHECKING:
    from .withdrawal import Withdrawn


def prepare(
    place: HostRun,
    spec: Dict[str, Any],
    secrets: Dict[str, str],
    registry: Dict[str, str],
    *,
    withdrawn: Withdrawn = lambda: False,
) -> Dict[str, Any]:
    """Prepare this host for `go` and return the guard's state. Raises Refused, after removing everything again.

    `withdrawn`: whether to stop waiting, for another host or a pull, because the attempt will not start.
    """
    try:
        spec[host_identity.FIELD] = host_identity.identity()
        ends_at_logout = _check_logout()
        host_drain.check(spec)
        slot_queue.check_slots(spec.get("slots") or {})
        if not (spec.get("queued") or spec.get("continues")):
            slot_queue.check_reservations(spec.get("slots") or {})
        gpu_memory.wait_until_free(spec)
        attempt_directories.create_files(place, spec)
        source_unpacking.unpack_source(place, spec, withdrawn)
        write_secrets(place, spec, secrets)
        write_json(place.spec, spec)
        _provide_image(place, spec, registry, withdrawn)
        _check_rendezvous(spec)
        with pyxis_container.held(place, spec, withdrawn) as kept_open:
            return guard_start.start_guard(place, ends_at_logout=ends_at_logout, kept_open=kept_open)
    except Refused:
        leftovers.clean(place)
        raise
    except (OSError, subprocess.SubprocessError) as error:
        leftovers.clean(place)
        raise Refused("cannot prepare: %s" % error, hint=squash_hint(error, spec)) from error


def _provide_image(place: HostRun, spec: Dict[str, Any], registry: Dict[str, str], withdrawn: Withdrawn) -> None:
    """Provide the image of the ranks, and with Docker their containers. Raises Refused."""
    if spec["runtime"] == "docker":
        container_creation.check_users(spec)
        container_creation.provide_image(place, spec, registry, withdrawn)
        container_creation.create(spec)
        write_json(place.spec, spec)  # with the ids of the containers
    if spec["runtime"] == "apptainer":
        apptainer_preparation.provide(spec, registry, withdrawn)
        apptainer_preparation.try_out(spec, withdrawn)


def squash_hint(error: Exception, spec: Dict[str, Any]) -> str:
    """Hint for root on a shared directory with root_squash; empty for other errors."""
    path = str(getattr(error, "filename", None) or "")
    ours = any(path.startswith(row["path"]) for row in spec.get("make_dirs", []))
    if os.geteuid() == 0 and isinstance(error, PermissionError) and ours:
        return "an NFS server with root_squash maps root to nobody: log in as the directory's owner (ansible_user)"
    return ""


def _check_logout() -> bool:
    """Refuse a host where logind would end the guard and its ranks; whether it ends what is no unit of the user."""
    ends_at_logout = login_session.ends_at_logout()
    if ends_at_logout and not login_session.lingers():
        user = user_name(os.geteuid())
        raise Refused(
            "logind ends the processes of %s at logout (KillUserProcesses=yes in logind.conf), so the ranks would end "
            "with the controller's connection" % user,
            hint="on the host: loginctl enable-linger %s; or use become (-b)" % user,
        )
    return ends_at_logout


def write_secrets(place: HostRun, spec: Dict[str, Any], secrets: Dict[str, str]) -> None:
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
