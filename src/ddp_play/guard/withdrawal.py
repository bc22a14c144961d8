"""Commands that carry out an order which the controller may withdraw meanwhile."""

from __future__ import annotations

import subprocess
import time
from typing import Callable, Tuple

from .protocol import WITHDRAWN
from .refusal import Refused

Withdrawn = Callable[[], bool]  # whether the controller no longer wants it
LOOK_S = 0.2


def outcome(child: "subprocess.Popen[bytes]", until: float, withdrawn: Withdrawn) -> Tuple[bytes, bytes]:
    """What it wrote on stdout and stderr. Raises TimeoutError, or Refused if the order was withdrawn."""
    while True:
        try:
            return child.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            if withdrawn():
                raise Refused("the preparation was withdrawn", kind=WITHDRAWN) from None
            if time.monotonic() > until:
                raise TimeoutError from None
