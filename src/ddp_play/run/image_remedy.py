"""Remedies that copy an image from the controller, judged by whether the controller has it."""

from __future__ import annotations

import re
from contextlib import closing

from ddp_play.errors import HostNotReady

TIMEOUT_S = 3
LOAD = re.compile(r"\bimage load [^;\n]*?--image (?P<image>[^\s;,]+)")


def judged(hint: str) -> str:
    """The hint; where it copies an image that this machine lacks too, with what provides it."""
    images = dict.fromkeys(match["image"] for match in LOAD.finditer(hint))
    for image in images:
        first = (
            f"this machine has no {image} either: add --build cpu, cuda or slim to image load, or docker pull {image}"
        )
        if first not in hint and is_here(image) is False:
            hint = f"{hint}; {first}"
    return hint


def is_here(image: str) -> bool | None:
    """Whether the engine that `image load` uses has the image; None if it does not answer soon."""
    # Every run imports this module, and only this remedy needs Docker's client.
    from ddp_play.lab.base_image import has_image  # noqa: PLC0415
    from ddp_play.lab.docker_client import connect, engine_errors  # noqa: PLC0415

    try:
        with closing(connect(timeout_s=TIMEOUT_S)) as client, engine_errors(f"inspect {image}"):
            return has_image(client, image)
    except HostNotReady:
        return None
