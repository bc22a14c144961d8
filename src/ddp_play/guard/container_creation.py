"""Images and containers of the ranks: pulled and created with the docker command, not started."""

from __future__ import annotations

import binascii
import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import docker_socket, programs, secret_files
from .refusal import Refused
from .withdrawal import Withdrawn, outcome

if TYPE_CHECKING:
    from pathlib import Path

    from .run_directory import HostRun

SQUASH_HINT = (
    "the engine runs as root, which an NFS server with root_squash maps to nobody: chmod o+x every directory above "
    "the path"
)


def _docker(
    arguments: List[str], env: Dict[str, str], timeout_s: float, withdrawn: Withdrawn = lambda: False
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command of docker to its end. Raises Refused after `timeout_s`, and if the order is withdrawn."""
    program = programs.which("docker")  # with the PATH of this process: `env` may contain that of the container
    if program is None:
        raise Refused(
            "no docker command on this host",
            hint="ddp-play provision -i INVENTORY --limit HOSTS --tags docker_engine installs it",
        )
    words, pipe, null = [program, *arguments], subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(words, env=env, stdin=null, stdout=pipe, stderr=pipe) as child:
        try:
            output, errors = outcome(child, time.monotonic() + timeout_s, withdrawn)
        except TimeoutError as error:
            raise Refused("docker %s did not end within %.0f s" % (arguments[0], timeout_s)) from error
        finally:
            child.kill()  # an engine ends a pull with its client
    return subprocess.CompletedProcess(words, child.returncode, output, errors)


def provide_image(
    place: HostRun, spec: Dict[str, Any], registry: Dict[str, str], withdrawn: Withdrawn = lambda: False
) -> None:
    """Pull the image by the job's policy (`always`, `missing`, `never`). Raises Refused."""
    reference, policy = spec["image"], spec["pull"]
    try:
        document = docker_socket.image(reference)
        if policy == "always" or (policy == "missing" and document is None):
            _pull(place, spec, registry, withdrawn)
            document = docker_socket.image(reference)
    except docker_socket.EngineError as error:
        raise Refused(str(error)) from error
    if document is None:
        raise Refused(
            "image %s is not on this host" % reference,
            hint="ddp-play image load -i INVENTORY --limit HOSTS --image %s" % reference,
        )


def _pull(place: HostRun, spec: Dict[str, Any], registry: Dict[str, str], withdrawn: Withdrawn) -> None:
    reference, env = spec["image"], dict(os.environ)
    config: Optional[Path] = None
    if registry:
        user = "%s:%s" % (registry["username"], registry["password"])
        token = binascii.b2a_base64(user.encode(), newline=False).decode()
        config = secret_files.docker_config(place.secrets)
        document = {"auths": {registry["server"]: {"auth": token}}}
        secret_files.write(config, {"config.json": json.dumps(document).encode()})
        env["DOCKER_CONFIG"] = str(config)
    try:
        done = _docker(["pull", "--quiet", reference], env, spec["pull_timeout_s"], withdrawn)
    finally:
        if config is not None:
            import shutil

            shutil.rmtree(str(config), ignore_errors=True)
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Refused(
            "cannot pull %s: %s" % (reference, words[-1] if words else "docker pull failed"),
            hint="correct ddp_job_image, or copy the image from here: ddp-play image load -i INVENTORY --limit HOSTS "
            "--image %s" % reference,
        )


def check_users(spec: Dict[str, Any]) -> None:
    """Refuse a lease that only the engine could enforce: a guard may not signal the users that it maps others to."""
    if os.geteuid() == 0 or not spec["limits"]["lease_s"]:
        return
    try:
        options = docker_socket.info().get("SecurityOptions") or []
    except docker_socket.EngineError as error:
        raise Refused(str(error)) from error
    if "name=userns" in options:
        raise Refused(
            "the engine maps users (userns-remap), so this user may signal ranks only through the engine, and a lease "
            "would not end them while it hangs",
            hint="use become (-b), or a job with neither ddp_job_restarts nor ddp_job_lease",
        )


def _create_hint(words: str) -> str:
    """What helps against this message of docker; empty if that is not known."""
    if "stat " in words and "permission denied" in words:
        return SQUASH_HINT
    missing = re.search(r"bind source path does not exist: ([^\s.]\S*?)\.?(?:\s|$)", words)
    return "make %s on HOSTS, or correct ddp_job_mounts" % missing.group(1) if missing else ""


def create(spec: Dict[str, Any]) -> None:
    """Create the containers of this host's ranks. Raises Refused with the message of docker."""
    for unit in [spec["agent"]] if spec.get("agent") else spec["ranks"]:
        env = dict(os.environ)
        env.update(unit["env"])  # `docker create --env NAME` takes the value from here: newlines arrive exactly
        done = _docker(unit["create"], env, 120.0)
        if done.returncode:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise Refused(
                "cannot create the container of rank %d: %s" % (unit["rank"], words), hint=_create_hint(words)
            )
        unit["container_id"] = done.stdout.decode(
            "ascii", "replace"
        ).strip()  # how the guard finds it without the engine
