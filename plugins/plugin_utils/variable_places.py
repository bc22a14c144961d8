"""Where variables were written: file and line, by the tag that Ansible gives what it reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible._internal._datatag._tags import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def variable_places(variables: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """`inventory/hosts.yml:7` of each of these variables, relative to the current directory where it is below that.

    Without a file it is Ansible's description, such as `<CLI option '-e'>`. Empty where Ansible says nothing: of null
    and of true and false, which cannot have a tag.
    """
    return {name: _place(variables.get(name)) for name in names}


def _place(value: object) -> str:
    origin = Origin.get_tag(value)
    if origin is None:
        return ""
    line = f":{origin.line_num}" if origin.line_num else ""
    return f"{_shortened(origin.path)}{line}" if origin.path else origin.description or ""


def _shortened(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current directory was removed
        return path
