"""Recipe of the images of lab hosts. Tags contain its hash, so that a changed recipe gives a new image."""

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
# Increase it when the construction of the root file system changes.
_ROOT_VERSION = 2
_CONTEXT_FILES = ("entry.sh", "slow-net.sh", "slow-net.service", "sshd.conf")
_ENGINE_PACKAGES = {
    Distro.BOOKWORM: "docker.io",
    Distro.TRIXIE: "docker.io docker-cli",
}


@dataclass(frozen=True)
class BuildStep:
    """One `docker build`: Dockerfile (in the same directory as its files), arguments and resulting tag."""

    tag: str
    dockerfile: str
    buildargs: tuple[tuple[str, str], ...]


def root_tag(distro: Distro) -> str:
    """Tag of the root file system, from a registry or from debootstrap."""
    return f"{ROOT_REPOSITORY}:{distro}-v{_ROOT_VERSION}"


def host_steps(distro: Distro, *, engine: bool) -> tuple[BuildStep, ...]:
    """Builds from the root image to the image of a lab host; the last tag is the image to run."""
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
    """Tag of the image for lab hosts of this kind."""
    return host_steps(distro, engine=engine)[-1].tag


def build_context(step: BuildStep) -> bytes:
    """Tar archive for a build. The same recipe gives the same bytes."""
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
