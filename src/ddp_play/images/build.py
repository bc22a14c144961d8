"""Build of the rank image with the engine of the controller."""

from __future__ import annotations

import io
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING

from docker.utils import parse_repository_tag

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.errors import InternalError
from ddp_play.images.content_hash import fingerprint
from ddp_play.images.image_packages import ImagePackages, report_sizes, resolve_all, resolve_for
from ddp_play.images.recipe import (
    PYTHON,
    REPOSITORY,
    ImageRequest,
    check_request,
    extra_dockerfile,
    slim_base_tag,
    slim_dockerfile,
)
from ddp_play.images.wheels import PipSource, Wheel, download, missing_from
from ddp_play.lab.base_image import build_stream, ensure_root_image, has_image
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.docker_client import connect, engine_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from docker import DockerClient

    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.spec import Distro

_WITHOUT_REGISTRY = (
    "no registry is needed by ddp-play image build --cpu, nor by ddp-play image build --offline --cuda;"
    " ddp-play image build --base IMAGE takes another image that has torch"
)


@dataclass(frozen=True)
class BuiltImage:
    """A built image; `torch` is its version if it came from pip, `added` are the packages of `--with`."""

    image: str
    content: str
    size_bytes: int
    torch: str
    added: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Document of `image build --json`."""
        return asdict(self)


@dataclass(frozen=True)
class PlannedImage:
    """An image that can be built: its request, and what pip found for it."""

    request: ImageRequest
    packages: ImagePackages


def build_image(request: ImageRequest, *, progress: ProgressListener) -> BuiltImage:
    """Plan and build the image. Raises UsageError or HostNotReady."""
    return build_planned(plan_image(request, progress=progress), progress=progress)


def plan_image(request: ImageRequest, *, progress: ProgressListener) -> PlannedImage:
    """What the image needs; nothing is built. Raises UsageError, or HostNotReady for what cannot be had here."""
    check_request(request)
    packages = ImagePackages(PipSource(PYTHON[request.distro], request.wheelhouse))
    if request.on_debian:
        packages = resolve_all(request, packages.source, progress=progress)
        report_sizes(packages, progress=progress)
    return PlannedImage(request, packages)


def build_planned(planned: PlannedImage, *, progress: ProgressListener) -> BuiltImage:
    """Build an image. Packages for a base of others are known, and refused, only when it is here."""
    client, request, packages = connect(), planned.request, planned.packages
    with _first_tag(client, request) as tag:
        _build_base(client, request, packages, tag, progress=progress)
        if request.extra and not request.on_debian:
            packages = resolve_for(client, tag, request, progress=progress)
            report_sizes(packages, progress=progress)
        if request.extra:
            _add_extra(client, packages, tag, request.result_tag, progress=progress)
    return _describe(client, request.result_tag, packages)


def tag_as(client: DockerClient, source: str, tag: str) -> None:
    """Give an image another name."""
    repository, name = parse_repository_tag(tag)
    with engine_errors(f"tag {source} as {tag}"):
        client.images.get(source).tag(repository, name or "latest")


@contextmanager
def _first_tag(client: DockerClient, request: ImageRequest) -> Iterator[str]:
    """Tag of the image without the extra packages; a name for the time of the build if there are some."""
    if not request.extra:
        yield request.result_tag
        return
    tag = f"{REPOSITORY}-base:without-extra-{fingerprint({'Config': {'Cmd': asdict(request)}})}"
    try:
        yield tag
    finally:
        if has_image(client, tag):
            client.images.remove(tag, noprune=True)


def _build_base(
    client: DockerClient, request: ImageRequest, packages: ImagePackages, tag: str, *, progress: ProgressListener
) -> None:
    """The image without extra packages."""
    base = _ensure_slim(client, request.distro, progress=progress) if request.on_debian else request.base
    if request.slim:
        tag_as(client, base, tag)
        return
    wheels, _ = _download(packages, packages.torch, progress=progress)
    progress.step(f"building {request.result_tag} on {base or 'its default base'}")
    dockerfile = collection_root() / "trainer" / "Dockerfile"
    if not dockerfile.is_file():
        raise InternalError(f"{dockerfile} is missing from this installation")
    with _context(dockerfile.read_bytes(), wheels) as context:
        build_stream(
            client,
            context,
            tag=tag,
            buildargs={"BASE": base} if base else {},
            label="rank",
            progress=progress,
            hint="" if request.on_debian else _WITHOUT_REGISTRY,
        )


def _add_extra(
    client: DockerClient, packages: ImagePackages, base: str, tag: str, *, progress: ProgressListener
) -> None:
    """The image with the extra packages; the first image under its own name if it has them all."""
    if not packages.extra:
        tag_as(client, base, tag)
        return
    wheels, added = _download(packages, packages.extra, progress=progress)
    progress.step(f"adding {', '.join(wheel.name for wheel in packages.extra)}")
    lines = "".join(f"./{path.name}\n" for path in added)
    with _context(extra_dockerfile(), wheels, requirements=lines) as context:
        build_stream(client, context, tag=tag, buildargs={"BASE": base}, label="rank", progress=progress)


def _download(
    packages: ImagePackages, wheels: tuple[Wheel, ...], *, progress: ProgressListener
) -> tuple[list[Path], list[Path]]:
    """(files of the wheels and of the image's pip, those of the wheels alone)."""
    if not wheels:
        return [], []
    if missing := missing_from(packages.directory, wheels):
        progress.step(f"downloading {', '.join(wheel.name for wheel in missing)} to {packages.directory}")
    pip = () if any(wheel.name == "pip" for wheel in wheels) else packages.pip
    files = download((*wheels, *pip), packages.source, packages.directory, progress=progress)
    return files, files[: len(wheels)]


def _describe(client: DockerClient, tag: str, packages: ImagePackages) -> BuiltImage:
    with engine_errors(f"inspect {tag}"):
        attrs = client.images.get(tag).attrs
    torch = next((wheel.version for wheel in packages.torch if wheel.name == "torch"), "")
    added = tuple(f"{wheel.name}=={wheel.version}" for wheel in packages.extra)
    return BuiltImage(tag, fingerprint(attrs), int(attrs.get("Size", 0)), torch, added)


def _ensure_slim(client: DockerClient, distro: Distro, *, progress: ProgressListener) -> str:
    tag = slim_base_tag(distro)
    if not has_image(client, tag):
        ensure_root_image(client, distro, progress=progress)
        progress.step(f"building {tag}")
        with _context(slim_dockerfile()) as context:
            args = {"ROOT": root_tag(distro)}
            build_stream(client, context, tag=tag, buildargs=args, label="rank", progress=progress)
    return tag


@contextmanager
def _context(dockerfile: bytes, wheels: Sequence[Path] = (), *, requirements: str = "") -> Iterator[IO[bytes]]:
    """Tar archive with a Dockerfile and a wheelhouse."""
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            _add_bytes(tar, "Dockerfile", dockerfile)
            for wheel in sorted(wheels):
                tar.add(wheel, f"wheelhouse/{wheel.name}")
            if requirements:
                _add_bytes(tar, "wheelhouse/requirements.txt", requirements.encode())
        context.seek(0)
        yield context


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
