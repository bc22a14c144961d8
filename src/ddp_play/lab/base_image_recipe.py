"""What a base image is made of; its tag is a hash of that, so a changed recipe is another image."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from importlib.resources import files

from ddp_play.lab.spec import Distro

ROOT_REPOSITORY = "ddp-play-lab-root"
HOST_REPOSITORY = "ddp-play-lab-host"
IMAGE_LABEL = "ddp-play.image"
# Bump when the way a root file system is made changes.
_ROOT_VERSION = 2
_CONTEXT_FILES = ("entry.sh", "slow-net.sh", "slow-net.service", "sshd.conf")
_ENGINE_PACKAGES = {
    Distro.BOOKWORM: "docker.io",
    Distro.TRIXIE: "docker.io docker-cli",
}


@dataclass(frozen=True)
class BuildStep:
    """One `docker build`: its Dockerfile (with the files beside it), arguments and resulting tag."""

    tag: str
    dockerfile: str
    buildargs: tuple[tuple[str, str], ...]


def root_tag(distro: Distro) -> str:
    """The bare distribution, from a registry or from debootstrap."""
    return f"{ROOT_REPOSITORY}:{distro}-v{_ROOT_VERSION}"


def host_steps(distro: Distro, *, engine: bool) -> tuple[BuildStep, ...]:
    """The builds that lead from the root image to a lab host; the last tag is the image to run."""
    bare = _step(distro, "bare", parent=("ROOT", root_tag(distro)))
    if not engine:
        return (bare,)
    with_engine = _step(
        distro,
        "docker",
        parent=("BARE", bare.tag),
        extra=(("ENGINE_PACKAGES", _ENGINE_PACKAGES[distro]),),
    )
    return (bare, with_engine)


def host_tag(distro: Distro, *, engine: bool) -> str:
    """The image lab hosts of this kind run."""
    return host_steps(distro, engine=engine)[-1].tag


def build_context(step: BuildStep) -> bytes:
    """The tar a build sends to the engine; the same bytes for the same recipe."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in _CONTEXT_FILES:
            _add(tar, name, _read(name))
        _add(tar, "Dockerfile", _read(step.dockerfile))
    return buffer.getvalue()


def _step(distro: Distro, kind: str, *, parent: tuple[str, str], extra: tuple[tuple[str, str], ...] = ()) -> BuildStep:
    dockerfile = f"{kind}.Dockerfile"
    args = (parent, *extra)
    digest = hashlib.sha256(repr(args).encode())
    for name in (dockerfile, *_CONTEXT_FILES):
        digest.update(_read(name))
    return BuildStep(f"{HOST_REPOSITORY}:{distro}-{kind}-{digest.hexdigest()[:12]}", dockerfile, args)


def _read(name: str) -> bytes:
    return (files("ddp_play.lab") / "files" / name).read_bytes()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    tar.addfile(info, io.BytesIO(content))
