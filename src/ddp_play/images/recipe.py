"""Tags, base image and requirements of the rank image. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.spec import Distro

REPOSITORY = "ddp-play-rank"
DEFAULT_TAG = f"{REPOSITORY}:latest"
SLIM_TAG = f"{REPOSITORY}:slim"
# Python version of each release, for which the wheels are downloaded.
PYTHON = {Distro.BOOKWORM: "3.11", Distro.TRIXIE: "3.13"}


@dataclass(frozen=True)
class ImageRequest:
    """Options of `image build`; if `base` is empty, the trainer's Dockerfile chooses it."""

    tag: str = ""
    base: str = ""
    offline: bool = False
    slim: bool = False
    distro: Distro = Distro.BOOKWORM
    torch: str = ""

    @property
    def result_tag(self) -> str:
        """Requested tag, or the default one."""
        return self.tag or (SLIM_TAG if self.slim else DEFAULT_TAG)

    @property
    def needs_wheels(self) -> bool:
        """Whether torch comes from a wheelhouse instead of the base image."""
        return self.offline and not self.slim


def slim_dockerfile() -> bytes:
    """The Dockerfile of the image without torch."""
    return (files("ddp_play.images") / "files/slim.Dockerfile").read_bytes()


def slim_base_tag(distro: Distro) -> str:
    """Tag that changes with the slim recipe, so that an old build is not reused."""
    digest = hashlib.sha256(slim_dockerfile() + root_tag(distro).encode()).hexdigest()[:12]
    return f"{REPOSITORY}-base:{distro}-{digest}"


def requirements(*, torch: str, numpy: str, same_python: bool) -> list[str]:
    """pip requirements for the wheelhouse; numpy as on the controller if the Python versions are equal."""
    pinned_numpy = f"numpy=={numpy}" if numpy and same_python else "numpy"
    return ["pip", f"torch=={torch}" if torch else "torch", pinned_numpy]


def pip_download_argv(python: str, wanted: list[str], target: str, *, version: str, same_python: bool) -> list[str]:
    """Command line of `pip download` for the image's Python, which may differ from the controller's."""
    argv = [python, "-m", "pip", "download", "--disable-pip-version-check", "--dest", target]
    if not same_python:
        argv += ["--only-binary=:all:", "--python-version", version]
    return [*argv, *wanted]
