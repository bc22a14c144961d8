"""Images as Apptainer names them: a SIF file, a sandbox directory, or a reference that each host pulls. Pure."""

from __future__ import annotations

import re

PULLED = ("docker://", "oras://")
FILES = (".sif", ".sqsh", ".squashfs")  # no registry has images of such names, and a relative path looks like one
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):/")
FORMS = "the absolute path of a .sif file or of a sandbox directory on the hosts, docker://REF, or oras://REF"


def is_apptainers(image: str) -> bool:
    """Is it a path, or a reference with a scheme? Docker's names are neither; a relative path is refused later."""
    return image.startswith(("/", "./", "../", "~")) or image.endswith(FILES) or SCHEME.match(image) is not None


def for_apptainer(image: str) -> str:
    """The image as Apptainer takes it: a name of Docker's becomes a reference of its registry."""
    return image if is_apptainers(image) else f"docker://{image}"


def is_pulled(image: str) -> bool:
    """Does each host pull it before the start?"""
    return image.startswith(PULLED)


def problem(image: str, pull: str) -> str:
    """Why Apptainer cannot take this image, with what to write; empty if it can."""
    if re.search(r"[\x00-\x1f]", image):
        return f"{image!r} holds a control character"
    if image.startswith("/"):
        return ""
    if is_pulled(image):
        return _pull_problem(image, pull)
    if scheme := SCHEME.match(image):
        return f"{image} has the scheme {scheme[1]}, which is not supported; write {FORMS}"
    if image.startswith((".", "~")) or image.endswith(FILES):
        return f"{image} is no absolute path, and hosts have no common directory that it could be below"
    return f"{image} is a name of Docker's; write {for_apptainer(image)}, or {FORMS}"


def _pull_problem(image: str, pull: str) -> str:
    scheme, _, reference = image.partition("://")
    if not reference or reference.startswith("/"):
        return f"{image} names nothing after {scheme}://; paths are written without a scheme"
    if pull == "never":
        return (
            f"{image} is pulled before each run, and ddp_job_image_pull is never; "
            f"apptainer pull FILE.sif {image} makes a file that can be named by its path"
        )
    return ""
