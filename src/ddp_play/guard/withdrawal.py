"""Orders that the controller may withdraw while they are carried out, and commands that then end."""

from __future__ import annotations

import subprocess
import time
from typing import Callable, Tuple

from .protocol import WITHDRAWN
from .refusal import Refused

Withdrawn = Callable[[], bool]  # whether the controller no longer wants it
LOOK_S = 0.2


def withdrawn_refusal() -> Refused:
    """What a host answers to a preparation that was withdrawn."""
    return Refused("the preparation was withdrawn", kind=WITHDRAWN)


def outcome(child: "subprocess.Popen[bytes]", until: float, withdrawn: Withdrawn) -> Tuple[bytes, bytes]:
    """What it wrote on stdout and stderr. Raises TimeoutError, or Refused if the order was withdrawn."""
    while True:
        try:
            return child.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            if withdrawn():
                raise withdrawn_refusal() from None
            if time.monotonic() > until:
                raise TimeoutError from None
