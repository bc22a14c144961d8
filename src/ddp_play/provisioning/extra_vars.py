"""Variables of the command line: what --extra-vars sets, read as Ansible reads it."""

from __future__ import annotations

import contextlib
import itertools
import shlex
from pathlib import Path
from typing import Any

import yaml

from ddp_play.bundle.controller_user import expanded


def extra_variables(options: tuple[str, ...], cwd: str) -> dict[str, Any]:
    """Variables of --extra-vars: k=v pairs, JSON or YAML, @file. Unreadable ones are left out; Ansible reports them."""
    found: dict[str, Any] = {}
    for option, value in itertools.pairwise(options):
        if option == "--extra-vars":
            with contextlib.suppress(OSError, ValueError, yaml.YAMLError):
                found.update(_extra(value, cwd))
    return found


def _extra(value: str, cwd: str) -> dict[str, Any]:
    if value.startswith(("@", "{", "[")):
        text = Path(cwd, expanded(value[1:])).read_text(encoding="utf-8") if value.startswith("@") else value
        document = yaml.safe_load(text)
        return document if isinstance(document, dict) else {}
    pairs = (argument.partition("=") for argument in shlex.split(value))
    return {name: text for name, sign, text in pairs if sign}
