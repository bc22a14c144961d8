"""Build of the rank image with the engine of the controller."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import PackageNotFoundError, version
from typing import IO, TYPE_CHECKING

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.paths import home
from ddp_play.errors import HostNotReady, InternalError, UsageError
from ddp_play.images.recipe import (
    PYTHON,
    ImageRequest,
    pip_download_argv,
    requirements,
    slim_base_tag,
    slim_dockerfile,
)
from ddp_play.lab.base_image import build_stream, ensure_root_image, has_image
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.docker_client import connect

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient

    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.spec import Distro


def build_image(request: ImageRequest, *, progress: ProgressListener) -> str:
    """Build the image and return its tag. Raises UsageError or HostNotReady."""
    if request.base and (request.offline or request.slim):
        raise UsageError("--base cannot be combined with --offline or --slim: both have their own base")
    client = connect()
    if request.slim:
        tag_as(client, _ensure_slim(client, request.distro, progress=progress), request.result_tag)
        return request.result_tag
    base = _ensure_slim(client, request.distro, progress=progress) if request.offline else request.base
    wheels = _wheelhouse(request, progress=progress) if request.needs_wheels else None
    progress.step(f"building {request.result_tag} on {base or 'its default base'}")
    with tempfile.TemporaryFile() as context:
        _write_context(context, wheels)
        build_stream(
            client,
            context,
            tag=request.result_tag,
            buildargs={"BASE": base} if base else {},
            label="rank",
            progress=progress,
            hint=""
            if request.offline
            else "use --offline, which needs no registry, or --base with another image that has torch",
        )
    return request.result_tag


def tag_as(client: DockerClient, source: str, tag: str) -> None:
    """Give an image another name."""
    repository, _, name = tag.partition(":")
    client.images.get(source).tag(repository, name or "latest")


def _ensure_slim(client: DockerClient, distro: Distro, *, progress: ProgressListener) -> str:
    tag = slim_base_tag(distro)
    if not has_image(client, tag):
        ensure_root_image(client, distro, progress=progress)
        progress.step(f"building {tag}")
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            _add_bytes(tar, "Dockerfile", slim_dockerfile())
        context.seek(0)
        build_stream(client, context, tag=tag, buildargs={"ROOT": root_tag(distro)}, label="rank", progress=progress)
    return tag


def _wheelhouse(request: ImageRequest, *, progress: ProgressListener) -> Path:
    """Directory with wheels for the image's Python, downloaded once with pip. Raises HostNotReady."""
    wanted_python = PYTHON[request.distro]
    same_python = wanted_python == f"{sys.version_info.major}.{sys.version_info.minor}"
    torch = request.torch or _installed("torch")
    target = home() / "wheelhouse" / f"python{wanted_python}-torch{torch or 'newest'}"
    done = target / ".complete"
    if done.exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    wanted = requirements(torch=torch, numpy=_installed("numpy"), same_python=same_python)
    progress.step(f"downloading wheels ({' '.join(wanted)})")
    argv = pip_download_argv(sys.executable, wanted, str(target), version=wanted_python, same_python=same_python)
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HostNotReady(
            f"pip could not download {' '.join(wanted)} for Python {wanted_python}:\n" + _tail(result.stderr),
            hint=f"set PIP_INDEX_URL or PIP_FIND_LINKS, or put the wheels into {target} and create {done}",
        )
    done.touch()
    return target


def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return ""


def _write_context(context: IO[bytes], wheels: Path | None) -> None:
    dockerfile = collection_root() / "trainer" / "Dockerfile"
    if not dockerfile.is_file():
        raise InternalError(f"{dockerfile} is missing from this installation")
    with tarfile.open(fileobj=context, mode="w") as tar:
        _add_bytes(tar, "Dockerfile", dockerfile.read_bytes())
        for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
            tar.add(wheel, f"wheelhouse/{wheel.name}")
    context.seek(0)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-4:])
