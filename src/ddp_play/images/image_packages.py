"""Packages of an image, found out with pip before anything is built: torch, what `--with` adds, and their sizes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from rich.filesize import decimal

from ddp_play.bundle.paths import home
from ddp_play.bundle.summary import counted
from ddp_play.errors import HostNotReady
from ddp_play.images.recipe import TESTED_TORCH, Device, ImageRequest, torch_requirements
from ddp_play.images.wheels import PipSource, Wheel, device_of, missing_from, resolve
from ddp_play.lab.docker_client import engine_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from docker import DockerClient

    from ddp_play.lab.progress_listener import ProgressListener

_OPTIONS = {Device.CPU: "--cpu", Device.CUDA: "--offline --cuda"}
# Distributions of an image and the version of its Python.
_INSTALLED = (
    "import importlib.metadata as m, json, sys; "
    "print(json.dumps({'python': '%d.%d' % sys.version_info[:2], "
    "'packages': {d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name']}}))"
)


@dataclass(frozen=True)
class ImagePackages:
    """Wheels of an image: `torch` with what it needs, the `extra` ones on top, and `pip` where the image has none."""

    source: PipSource
    torch: tuple[Wheel, ...] = ()
    extra: tuple[Wheel, ...] = ()
    pip: tuple[Wheel, ...] = ()

    @property
    def directory(self) -> Path:
        """Where their files are kept."""
        return wheelhouse() / f"python{self.source.python}"


def wheelhouse() -> Path:
    """Directory of downloaded wheels, in a folder per version of Python."""
    return home() / "wheelhouse"


def resolve_all(request: ImageRequest, source: PipSource, *, progress: ProgressListener) -> ImagePackages:
    """Wheels of an image on Debian, whose Python has no packages of its own. Raises HostNotReady."""
    torch: tuple[Wheel, ...] = ()
    pip = resolve(("pip",), source) if request.needs_wheels or request.extra else ()
    if request.needs_wheels:
        torch = _resolve_torch(request, source, progress=progress)
    extra: tuple[Wheel, ...] = ()
    if request.extra:
        progress.step(f"asking pip for {' '.join(request.extra)}")
        have = {wheel.name: wheel.version for wheel in torch}
        extra = _new_ones(resolve(request.extra, source, constraints=_pins(have)), have)
    return ImagePackages(source, torch, extra, pip)


def resolve_for(client: DockerClient, tag: str, request: ImageRequest, *, progress: ProgressListener) -> ImagePackages:
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
    return ImagePackages(source, extra=_new_ones(wheels, found["packages"]), pip=pip)


def report_sizes(packages: ImagePackages, *, progress: ProgressListener) -> None:
    """One step of progress for torch and one for what `--with` adds."""
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


def _resolve_torch(request: ImageRequest, source: PipSource, *, progress: ProgressListener) -> tuple[Wheel, ...]:
    """torch with what it needs; HostNotReady if pip's index has it for the other kind of device only."""
    wanted = torch_requirements(
        torch=request.torch or _installed("torch") or TESTED_TORCH,
        numpy=_installed("numpy"),
        same_python=source.same_python,
    )
    progress.step(f"asking pip for {' '.join(wanted)}")
    torch = resolve(wanted, source)
    _check_device(request.device, torch)
    return torch


def _check_device(wanted: Device, torch: tuple[Wheel, ...]) -> None:
    """Refuse a torch of the other kind."""
    found = device_of(torch)
    if wanted in (Device.ANY, found):
        return
    pin = next(wheel.pin for wheel in torch if canonicalize_name(wheel.name) == "torch")
    size = decimal(sum(wheel.size or 0 for wheel in torch))
    raise HostNotReady(
        f"pip's index offers {pin} for {found}, with {len(torch)} packages of {size}, not for {wanted}",
        hint=f"set PIP_EXTRA_INDEX_URL to an index with builds for {wanted} (torch's page on its installation names"
        f" them), and repeat the command; another version of torch: ddp-play image build {_OPTIONS[wanted]}"
        f" --torch VERSION; this one: ddp-play image build {_OPTIONS[found]}",
    )


def _pins(have: dict[str, str]) -> list[str]:
    # A local version (2.13.0+cpu) fits the pin of its public one, and an index may have only that one.
    return [f"{name}=={number.partition('+')[0]}" for name, number in have.items() if name.lower() != "pip"]


def _new_ones(wheels: Sequence[Wheel], have: dict[str, str]) -> tuple[Wheel, ...]:
    names = {canonicalize_name(name) for name in have}
    return tuple(wheel for wheel in wheels if canonicalize_name(wheel.name) not in names)


def _installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return ""
