"""Remedies that copy an image from the controller, judged by whether the controller has it."""

from __future__ import annotations

import re
import subprocess

TIMEOUT_S = 3.0
LOAD = re.compile(r"\bimage load [^;\n]*?--image (?P<image>[^\s;,]+)")


def judged(hint: str) -> str:
    """The hint; where it copies an image that this machine lacks too, with what comes first."""
    images = dict.fromkeys(match["image"] for match in LOAD.finditer(hint))
    for image in images:
        first = f"this machine has no {image} either: ddp-play image build --tag {image}, or docker pull {image}"
        if first not in hint and is_here(image) is False:
            hint = f"{hint}; {first}, comes first"
    return hint


def is_here(image: str) -> bool | None:
    """Whether the engine of this machine has the image; None if none answers soon."""
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", "--", image]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return True
    return False if "no such image" in done.stderr.lower() else None
