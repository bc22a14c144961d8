"""Refusal of a host to take part in a run, as sent to the controller."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - reads as what happened
    """This host cannot take part; `kind` is the controller's error kind."""

    def __init__(self, message: str, kind: str = "host_not_ready", hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint
