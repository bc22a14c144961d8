"""Images as pyxis names them: a squashfs file, or a reference whose registry is followed by `#`. Pure."""

from __future__ import annotations

import re

from ddp_play.planning.apptainer_images import FILES, SCHEME

DOCKER = "docker://"
FORMS = "the absolute path of a .sqsh file on the nodes, docker://REF, or REF"
# Of Docker's own registry, which is enroot's default too.
DOCKER_HUB = ("docker.io", "index.docker.io")
_REGISTRY = re.compile(r"[^/]*[.:][^/]*|localhost")


def for_pyxis(image: str) -> str:
    """The image as `srun --container-image` takes it: `site:5000/team/train:2` becomes `site:5000#team/train:2`.

    A path, and a reference with `#`, stay as they are.
    """
    reference = image.removeprefix(DOCKER)
    if image.startswith("/") or "#" in reference:
        return image if image.startswith("/") else reference
    registry, slash, name = reference.partition("/")
    if not slash or not _REGISTRY.fullmatch(registry):
        return reference
    return name if registry in DOCKER_HUB else f"{registry}#{name}"


def is_imported(image: str) -> bool:
    """Does each node get it from a registry at each start?"""
    return not image.startswith("/")


def problem(image: str, pull: str) -> str:
    """Why pyxis cannot take this image, with what to write; empty if it can."""
    if re.search(r"[\x00-\x1f]", image):
        return f"{image!r} holds a control character"
    return "" if image.startswith("/") else _name_problem(image, pull)


def _name_problem(image: str, pull: str) -> str:
    if not image.removeprefix(DOCKER).strip("/#") or image.startswith(f"{DOCKER}/"):
        return f"{image} names nothing after {DOCKER}; paths are written without a scheme"
    if (scheme := SCHEME.match(image)) and not image.startswith(DOCKER):
        return f"{image} has the scheme {scheme[1]}, which is not supported; write {FORMS}"
    if image.startswith((".", "~")) or image.endswith(FILES):
        return f"{image} is no absolute path, and nodes have no common directory that it could be below"
    if pull == "never":
        return (
            f"{image} is imported by each node at each start, and ddp_job_image_pull is never; "
            f"enroot import -o FILE.sqsh {DOCKER}{for_pyxis(image)} makes a file that can be named by its path"
        )
    return ""
