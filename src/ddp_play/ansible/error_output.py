"""Error in the output of an Ansible program that ended before it ran anything. Pure."""

from __future__ import annotations

import re

# ansible-core 2.19 and newer, and older ones.
MARKS = ("[ERROR]", "ERROR!")
MAX_LINES = 12
# The error of an inventory names its file only; the reason and the line are in a warning of one of the plugins tried.
UNPARSED = ("Completely failed to parse inventory", "Unable to parse ")
YAML_FAILURE = re.compile(r"^(YAML parsing failed: .+)\nOrigin: (/.+:\d+:\d+)$", re.MULTILINE)


def error_text(output: str) -> str:
    """The first error and the lines after it, without the warnings before it; the last lines if none is marked."""
    if broken := unparsed_inventory(output):
        return broken
    lines = output.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(MARKS)), None)
    if first is None:
        return "\n".join([line for line in lines if not line.startswith("[WARNING]")][-MAX_LINES:])
    return "\n".join(lines[first : first + MAX_LINES])


def unparsed_inventory(output: str) -> str:
    """File, line, column and reason if an inventory is no valid YAML; else empty."""
    found = YAML_FAILURE.search(output) if any(words in output for words in UNPARSED) else None
    return f"{found[2]}: {found[1]}" if found else ""
