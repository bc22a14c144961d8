"""Tags, base image and requirements of the rank image. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files

from packaging.requirements import InvalidRequirement, Requirement

from ddp_play.errors import UsageError
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.spec import Distro

REPOSITORY = "ddp-play-rank"
DEFAULT_TAG = f"{REPOSITORY}:latest"
SLIM_TAG = f"{REPOSITORY}:slim"
CPU_TAG = f"{REPOSITORY}:cpu"
# Version of torch where the controller has none: that of constraints.txt, of the trainer's Dockerfile and of new sites.
TESTED_TORCH = "2.13.0"
# Python version of each release, for which the wheels are downloaded.
PYTHON = {Distro.BOOKWORM: "3.11", Distro.TRIXIE: "3.13"}


class Device(StrEnum):
    """Kind of a torch build; ANY takes what the base image or pip's index offers."""

    ANY = "any"
    CPU = "cpu"
    CUDA = "cuda"


class Kind(StrEnum):
    """Images that `image load --build` and `lab demo` can build."""

    CPU = "cpu"
    CUDA = "cuda"
    SLIM = "slim"


@dataclass(frozen=True)
class ImageRequest:
    """Options of `image build`; if `base` is empty, the trainer's Dockerfile chooses it.

    `extra`: arguments for pip, from `parse_extra`. `wheelhouse`: directory that replaces pip's index.
    """

    tag: str = ""
    base: str = ""
    offline: bool = False
    slim: bool = False
    distro: Distro = Distro.BOOKWORM
    torch: str = ""
    device: Device = Device.ANY
    extra: tuple[str, ...] = ()
    wheelhouse: str = ""

    @property
    def result_tag(self) -> str:
        """Requested tag, or the usual one: the demo, labs and sites use the same, so that an image is built once."""
        return self.tag or (SLIM_TAG if self.slim else CPU_TAG if self.device is Device.CPU else DEFAULT_TAG)

    @property
    def needs_wheels(self) -> bool:
        """Whether torch comes from wheels instead of the base image."""
        return not self.slim and (self.offline or self.device is Device.CPU)

    @property
    def on_debian(self) -> bool:
        """Whether the image is built on this package's Debian, whose Python is known before the build."""
        return self.slim or self.needs_wheels


def request_of(kind: Kind, tag: str) -> ImageRequest:
    """Request for an image of one of the usual kinds."""
    device = {Kind.CPU: Device.CPU, Kind.CUDA: Device.CUDA, Kind.SLIM: Device.ANY}[kind]
    return ImageRequest(tag=tag, slim=kind is Kind.SLIM, device=device)


def build_words(kind: Kind, tag: str) -> tuple[str, ...]:
    """Words of the command that builds such an image."""
    return ("image", "build", f"--{kind}", *(() if tag == request_of(kind, "").result_tag else ("--tag", tag)))


def check_request(request: ImageRequest) -> None:
    """Raise UsageError if options contradict each other."""
    if request.base and request.on_debian:
        raise UsageError("--base cannot be combined with --offline, --slim or --cpu: they have their own base")
    if request.slim and request.device is not Device.ANY:
        raise UsageError(f"--slim is an image without torch, so that --{request.device} has no meaning")
    if request.torch and not request.needs_wheels:
        raise UsageError("--torch is for images whose torch comes from pip", hint="give --cpu, or --offline --cuda")
    if request.wheelhouse and not (request.needs_wheels or request.extra):
        raise UsageError("--wheelhouse is for images that take wheels from pip", hint="give --cpu, --offline or --with")


def parse_extra(values: list[str], files: list[str]) -> tuple[str, ...]:
    """Arguments for pip from the values of `--with`: requirements, and `-r FILE`, whose file the shell passes apart.

    Raises UsageError.
    """
    words: list[str] = []
    rest = list(files)
    for value in values:
        name = value.strip()
        if name in ("-r", "--requirement"):
            if not rest:
                raise UsageError("--with -r: the name of a requirements file is missing")
            words += ["-r", rest.pop(0)]
        elif name.startswith(("-r ", "--requirement ")):
            words += ["-r", name.split(maxsplit=1)[1]]
        else:
            words.append(_requirement(name))
    if rest:
        raise UsageError(f"unexpected argument {rest[0]}", hint=f"ddp-play image build --with {rest[0]}")
    return tuple(words)


def _requirement(text: str) -> str:
    try:
        return str(Requirement(text))
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--with {text!r} is not a requirement of pip: {reason}",
            hint="write it like mpi4py or 'mpi4py>=4', or give a file: --with -r requirements.txt",
        ) from None


def slim_dockerfile() -> bytes:
    """The Dockerfile of the image without torch."""
    return _dockerfile("slim")


def extra_dockerfile() -> bytes:
    """The Dockerfile that adds the packages of `--with` to an image."""
    return _dockerfile("extra")


def _dockerfile(name: str) -> bytes:
    return (files("ddp_play.images") / "files" / f"{name}.Dockerfile").read_bytes()


def slim_base_tag(distro: Distro) -> str:
    """Tag that changes with the slim recipe, so that an old build is not reused."""
    digest = hashlib.sha256(slim_dockerfile() + root_tag(distro).encode()).hexdigest()[:12]
    return f"{REPOSITORY}-base:{distro}-{digest}"


def torch_requirements(*, torch: str, numpy: str, same_python: bool) -> tuple[str, ...]:
    """pip requirements of an image with torch; numpy as on the controller if the Python versions are equal."""
    pinned_numpy = f"numpy=={numpy}" if numpy and same_python else "numpy"
    return (f"torch=={torch}", pinned_numpy)
