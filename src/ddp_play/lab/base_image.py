"""Images of lab hosts: a root file system from a registry or debootstrap, then `docker build`."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docker.errors import APIError, ImageNotFound
from docker.utils import parse_repository_tag
from requests.exceptions import RequestException

from ddp_play.errors import HostNotReady
from ddp_play.lab.base_image_recipe import IMAGE_LABEL, BuildStep, build_context, host_steps, root_tag
from ddp_play.lab.build_stages import removed_stages, stage_of
from ddp_play.lab.docker_client import connect, engine_errors

if TYPE_CHECKING:
    from docker import DockerClient

    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.spec import Distro

# Longest wait for a registry's answer.
_PULL_TIMEOUT_S = 15
# Package lists, caches and documentation are half of the root file system, and no host needs them.
_ROOT_EXCLUDES = (
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "var/log/*",
    "usr/share/doc/*",
    "usr/share/man/*",
    "usr/share/locale/*",
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def has_image(client: DockerClient, tag: str) -> bool:
    """Whether the engine has the image. Raises HostNotReady."""
    with engine_errors(f"look for image {tag}"):
        try:
            client.images.get(tag)
        except ImageNotFound:
            return False
    return True


def ensure_host_image(
    client: DockerClient, distro: Distro, *, engine: bool, progress: ProgressListener, base: str = ""
) -> str:
    """Build the image of lab hosts if the engine does not have it; return its tag. Raises HostNotReady."""
    steps = host_steps(distro, engine=engine)
    if not has_image(client, steps[-1].tag):
        ensure_root_image(client, distro, progress=progress, base=base)
        for step in steps:
            if not has_image(client, step.tag):
                progress.step(f"building {step.tag}")
                build(client, step, progress=progress)
    return steps[-1].tag


def ensure_root_image(client: DockerClient, distro: Distro, *, progress: ProgressListener, base: str = "") -> str:
    """Pull a minimal Debian, or make it with debootstrap if no `base` is given; return its tag. Raises HostNotReady."""
    tag = root_tag(distro)
    if has_image(client, tag):
        return tag
    reference = base or f"debian:{distro}-slim"
    progress.step(f"pulling {reference}")
    pull_error = _pull(reference, tag)
    if pull_error and base:
        raise HostNotReady(f"{base} cannot be pulled: {pull_error}", hint=f"docker pull {base} shows more")
    if pull_error:
        progress.step(f"no registry is reachable ({pull_error}); making {tag} with debootstrap")
        _debootstrap(client, distro, tag, progress=progress)
    return tag


def build(client: DockerClient, step: BuildStep, *, progress: ProgressListener) -> None:
    """Run one build and report its output as progress. Raises HostNotReady with the last lines of output."""
    build_stream(
        client,
        io.BytesIO(build_context(step)),
        tag=step.tag,
        buildargs=dict(step.buildargs),
        label="lab",
        progress=progress,
    )


def build_stream(
    client: DockerClient,
    context: IO[bytes],
    *,
    tag: str,
    buildargs: dict[str, str],
    label: str,
    progress: ProgressListener,
    hint: str = "",
) -> None:
    """Build an image from a tar context with the engine's API. Raises HostNotReady."""
    tail: deque[str] = deque(maxlen=15)
    with engine_errors(f"build {tag}"), removed_stages(client) as stages:
        events = client.api.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            buildargs=buildargs,
            labels={IMAGE_LABEL: label},
            rm=True,
            forcerm=True,
            decode=True,
        )
        for event in events:
            stages.extend(stage_of(event))
            if "error" in event:
                raise HostNotReady(f"building {tag} failed: {event['error']}\n" + "\n".join(tail), hint=hint)
            text = _ANSI.sub("", str(event.get("stream", ""))).strip()
            if text:
                tail.append(text)
                progress.detail(text.splitlines()[-1])


def _pull(reference: str, tag: str) -> str:
    """Pull and tag an image; return the reason of a failure, empty on success."""
    client = connect(timeout_s=_PULL_TIMEOUT_S)
    try:
        was_here = has_image(client, reference)
        repository, version = parse_repository_tag(reference)
        client.images.pull(repository, version or "latest").tag(*tag.split(":"))
        if not was_here:
            with suppress(APIError):
                client.images.remove(reference, noprune=True)  # only this name: the image stays under `tag`
    except APIError as error:
        return str(error.explanation or error).rsplit(": ", maxsplit=1)[-1]
    except RequestException:
        return f"no answer within {_PULL_TIMEOUT_S} s"
    finally:
        client.close()
    return ""


def _debootstrap(client: DockerClient, distro: Distro, tag: str, *, progress: ProgressListener) -> None:
    if (problem := debootstrap_problem()) is not None:
        raise _without_registry(problem)
    # In a mount namespace, so that mounts of an interrupted debootstrap disappear.
    with tempfile.TemporaryDirectory(prefix="ddp-play-root-", dir="/var/tmp") as scratch:
        target = Path(scratch) / "root"
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", str(distro), str(target)]
        tail: deque[str] = deque(maxlen=8)
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            for text in process.stdout or ():
                tail.append(text.rstrip())
                progress.detail(text.strip())
        if process.returncode != 0:
            raise HostNotReady(f"debootstrap {distro} failed:\n" + "\n".join(tail))
        _import_tree(client, target, tag)


def _import_tree(client: DockerClient, target: Path, tag: str) -> None:
    excludes = [f"--exclude=./{pattern}" for pattern in _ROOT_EXCLUDES]
    command = ["tar", "-C", str(target), *excludes, "-c", "."]
    with (
        engine_errors(f"import {tag}"),
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process,
    ):
        repository, version = tag.split(":")
        client.api.import_image_from_stream(
            process.stdout, repository=repository, tag=version, changes=[f"LABEL {IMAGE_LABEL}=root"]
        )
    if process.returncode != 0:
        client.images.remove(tag)
        raise HostNotReady(f"tar of the new root file system failed (exit code {process.returncode})")


def source_problem(client: DockerClient, distro: Distro, *, timeout_s: int = _PULL_TIMEOUT_S) -> HostNotReady | None:
    """Why no root file system can be had: neither debootstrap works here nor does a registry answer. None if one can.

    With debootstrap a registry is not asked: it takes up to `timeout_s` to learn that there is none.
    """
    problem = None if has_image(client, root_tag(distro)) else debootstrap_problem()
    if problem is None or _registry_has(f"debian:{distro}-slim", timeout_s):
        return None
    return _without_registry(problem)


def _registry_has(reference: str, timeout_s: int) -> bool:
    """Whether its registry answers and knows the image."""
    client = connect(timeout_s=timeout_s)
    try:
        client.images.get_registry_data(reference)
    except (APIError, RequestException):
        return False
    finally:
        client.close()
    return True


def _without_registry(problem: HostNotReady) -> HostNotReady:
    return HostNotReady(f"no registry is reachable, and {problem.message}", hint=problem.hint)


def debootstrap_problem() -> HostNotReady | None:
    """Why debootstrap cannot make a Debian here; None if it can."""
    if shutil.which("debootstrap") is None:
        return HostNotReady(
            "debootstrap is not installed, so no Debian to build images on can be had",
            hint="apt-get install debootstrap, or docker load a Debian image and tag it as the base",
        )
    if os.geteuid() != 0:
        return HostNotReady(
            "debootstrap needs root to make a base image",
            hint="sudo ddp-play lab image; after that the lab itself needs no root",
        )
    return None
