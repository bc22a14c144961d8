"""Build of the rank image with the engine of the controller."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import IO, TYPE_CHECKING, Any

from docker.utils import parse_repository_tag
from packaging.utils import canonicalize_name
from rich.filesize import decimal

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.paths import home
from ddp_play.bundle.summary import counted
from ddp_play.errors import HostNotReady, InternalError
from ddp_play.images.content_hash import fingerprint
from ddp_play.images.recipe import (
    PYTHON,
    REPOSITORY,
    Device,
    ImageRequest,
    check_request,
    extra_dockerfile,
    slim_base_tag,
    slim_dockerfile,
    torch_requirements,
)
from ddp_play.images.wheels import PipSource, Wheel, device_of, download, missing_from, resolve
from ddp_play.lab.base_image import build_stream, ensure_root_image, has_image
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.docker_client import connect, engine_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from docker import DockerClient

    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.spec import Distro

# Distributions of an image and the version of its Python.
_INSTALLED = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps({'python': '%d.%d' % sys.version_info[:2], "
    "'packages': {d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}}))"
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
class _Packages:
    """Wheels of an image: `torch` with what it needs, the `extra` ones on top, and `pip` where the image has none."""

    source: PipSource
    torch: tuple[Wheel, ...] = ()
    extra: tuple[Wheel, ...] = ()
    pip: tuple[Wheel, ...] = ()

    @property
    def directory(self) -> Path:
        return home() / "wheelhouse" / f"python{self.source.python}"


def build_image(request: ImageRequest, *, progress: ProgressListener) -> BuiltImage:
    """Build the image. What pip does not find is said before anything is built. Raises UsageError or HostNotReady."""
    check_request(request)
    client = connect()
    packages = _Packages(PipSource(PYTHON[request.distro], request.wheelhouse))
    if request.on_debian:
        packages = _resolve_all(request, packages.source, progress=progress)
        _report_sizes(packages, progress=progress)
    with _first_tag(client, request) as tag:
        _build_base(client, request, packages, tag, progress=progress)
        if request.extra and not request.on_debian:
            packages = _resolve_for(client, tag, request, progress=progress)
            _report_sizes(packages, progress=progress)
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


def _resolve_all(request: ImageRequest, source: PipSource, *, progress: ProgressListener) -> _Packages:
    """Wheels of an image on Debian, whose Python has no packages of its own."""
    torch: tuple[Wheel, ...] = ()
    pip = resolve(("pip",), source) if request.needs_wheels or request.extra else ()
    if request.needs_wheels:
        wanted = torch_requirements(
            torch=request.torch or _installed("torch"), numpy=_installed("numpy"), same_python=source.same_python
        )
        progress.step(f"asking pip for {' '.join(wanted)}")
        torch = resolve(wanted, source)
        _check_device(request.device, torch)
    extra: tuple[Wheel, ...] = ()
    if request.extra:
        progress.step(f"asking pip for {' '.join(request.extra)}")
        have = {wheel.name: wheel.version for wheel in torch}
        extra = _new_ones(resolve(request.extra, source, constraints=_pins(have)), have)
    return _Packages(source, torch, extra, pip)


def _resolve_for(client: DockerClient, tag: str, request: ImageRequest, *, progress: ProgressListener) -> _Packages:
    """Wheels for an image that has packages already: none of them is replaced."""
    with engine_errors(f"list the Python packages of {tag}"):
        output = client.containers.run(
            tag, ["python3", "-c", _INSTALLED], entrypoint="", network_mode="none", remove=True
        )
    found: dict[str, Any] = json.loads(output)
    progress.step(f"asking pip for {' '.join(request.extra)}, for Python {found['python']}")
    source = PipSource(found["python"], request.wheelhouse)
    wheels = resolve(request.extra, source, constraints=_pins(found["packages"]))
    pip = () if "pip" in found["packages"] else resolve(("pip",), source)
    return _Packages(source, extra=_new_ones(wheels, found["packages"]), pip=pip)


def _pins(have: dict[str, str]) -> list[str]:
    # A local version (2.13.0+cpu) fits the pin of its public one, and an index may have only that one.
    return [f"{name}=={number.partition('+')[0]}" for name, number in have.items() if name.lower() != "pip"]


def _new_ones(wheels: Sequence[Wheel], have: dict[str, str]) -> tuple[Wheel, ...]:
    names = {canonicalize_name(name) for name in have}
    return tuple(wheel for wheel in wheels if canonicalize_name(wheel.name) not in names)


def _check_device(wanted: Device, torch: tuple[Wheel, ...]) -> None:
    found = device_of(torch)
    if wanted in (Device.ANY, found):
        return
    name = next(wheel.pin for wheel in torch if wheel.name == "torch")
    size = sum(wheel.size or 0 for wheel in torch)
    raise HostNotReady(
        f"pip's index offers {name} for {found}, with {len(torch)} packages of {decimal(size)}, not for {wanted}",
        hint=f"set PIP_EXTRA_INDEX_URL to an index with builds for {wanted} (torch's page on its installation names"
        f" them), or take this one with --offline --{found}",
    )


def _report_sizes(packages: _Packages, *, progress: ProgressListener) -> None:
    for what, wheels in (("torch", packages.torch), ("--with", packages.extra)):
        if wheels:
            progress.step(describe_download(what, wheels, missing_from(packages.directory, wheels)))


def describe_download(what: str, wheels: Sequence[Wheel], missing: Sequence[Wheel]) -> str:
    """`torch: 11 packages (torch 2.13.0+cpu, cpu), 220 MB, 28 MB of them to download`."""
    device = device_of(wheels)
    named = [f"{wheel.name} {wheel.version}" for wheel in wheels if what != "torch" or wheel.name == "torch"]
    build = f", the build for {device}" if device is not Device.ANY else ""
    unknown = " and more" if any(wheel.size is None for wheel in wheels) else ""
    total = decimal(sum(wheel.size or 0 for wheel in wheels))
    download_text = "all of it is here" if not missing else f"{decimal(sum(w.size or 0 for w in missing))} to download"
    return f"{what}: {counted(len(wheels), 'package')} of {total}{unknown} ({', '.join(named)}{build}); {download_text}"


def _build_base(
    client: DockerClient, request: ImageRequest, packages: _Packages, tag: str, *, progress: ProgressListener
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
            hint=""
            if request.on_debian
            else "--cpu needs no registry, and neither does --offline --cuda;"
            " --base takes another image that has torch",
        )


def _add_extra(client: DockerClient, packages: _Packages, base: str, tag: str, *, progress: ProgressListener) -> None:
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
    packages: _Packages, wheels: tuple[Wheel, ...], *, progress: ProgressListener
) -> tuple[list[Path], list[Path]]:
    """(files of the wheels and of the image's pip, those of the wheels alone)."""
    if not wheels:
        return [], []
    if missing := missing_from(packages.directory, wheels):
        progress.step(f"downloading {', '.join(wheel.name for wheel in missing)} to {packages.directory}")
    pip = () if any(wheel.name == "pip" for wheel in wheels) else packages.pip
    files = download((*wheels, *pip), packages.source, packages.directory, progress=progress)
    return files, files[: len(wheels)]


def _describe(client: DockerClient, tag: str, packages: _Packages) -> BuiltImage:
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


def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return ""


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
