"""Error in the output of an Ansible program that ended before it ran anything. Pure."""

from __future__ import annotations

# ansible-core 2.19 and newer, and older ones.
MARKS = ("[ERROR]", "ERROR!")
MAX_LINES = 12


def error_text(output: str) -> str:
    """The first error and the lines after it, without the warnings before it; the last lines if none is marked."""
    lines = output.strip().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(MARKS)), None)
    if first is None:
        return "\n".join([line for line in lines if not line.startswith("[WARNING]")][-MAX_LINES:])
    return "\n".join(lines[first : first + MAX_LINES])
