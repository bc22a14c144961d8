"""Names of a job's variables, and conversion of their values. Without pydantic, which loads slowly."""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
from typing import Any

PREFIX = "ddp_job_"
PORT_RANGE = (29500, 29999)  # of a job that sets no other
HOST_VARIABLES = ("ddp_slots", "ddp_interface", "ddp_shared_dir", "ddp_python", "ddp_state_dir")
# Of all roles of provisioning; a job has no use for them.
SITE_VARIABLES = ("ddp_proxy", "ddp_no_proxy", "ddp_mirror_url", "ddp_disrupt")
PLACEHOLDERS = (
    "rank",
    "local_rank",
    "world_size",
    "local_world_size",
    "init_method",
    "backend",
    "head_addr",
    "head_port",
    "run_id",
    "python",
)
# Variables that are read separately and are not part of the job, because they must never be printed.
SECRET_VARIABLES = ("secrets", "registry_password", "webhook")
BRACED_NAME = re.compile(r"(?<![{$]){([A-Za-z][A-Za-z_-]*)}(?!})")  # not ${HOME}, not {{rank}}
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_seconds(value: Any) -> Any:
    """90, "90", "90s", "15m", "2h", "1d" -> seconds."""
    if isinstance(value, bool) or value is None:
        raise ValueError("is a number of seconds or a text like 90s, 15m, 2h")
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
        if not match:
            raise ValueError(f"{value!r} is not a duration; write seconds or 90s, 15m, 2h, 1d")
        return float(match[1]) * _UNITS[match[2]]
    return value


def words(value: Any) -> Any:
    """A command without placeholders is a list, or a string that is split like in a shell."""
    return shlex.split(value) if isinstance(value, str) else value


def split_command(value: Any) -> Any:
    """A command is a list, or a string that is split like in a shell. ValueError for a misspelt placeholder."""
    if isinstance(value, str):
        value = shlex.split(value)
    elif isinstance(value, list):
        value = [_word(item) for item in value]
    else:
        return _word(value)
    for before, word in itertools.pairwise(["", *value]):
        if isinstance(word, str) and before != "-c":  # what follows -c is a program with braces of its own
            _check_placeholders(word)
    return value


def _word(item: Any) -> Any:
    """A word of a command. YAML reads `{rank}` without quotes as a mapping."""
    if isinstance(item, dict) and len(item) == 1 and next(iter(item.values())) is None:
        name = next(iter(item))
        raise ValueError(f'{{{name}}} without quotes is a mapping in YAML: quote it, "{{{name}}}"')
    return str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item


def _check_placeholders(word: str) -> None:
    """Only what resembles a placeholder is refused: braces of JSON, shells and Python are none of ours."""
    for name in BRACED_NAME.findall(word):
        near = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=0.75)
        if near and name not in PLACEHOLDERS:
            raise ValueError(f"there is no placeholder {{{name}}}; did you mean {{{near[0]}}}?")


def port_range(value: Any) -> Any:
    """ "29500-29999" or [29500, 29999] -> a pair."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+))?\s*", value)
        if not match:
            raise ValueError(f"{value!r} is not a port range; write 29500-29999")
        return (int(match[1]), int(match[2] or match[1]))
    return value


def host_range(value: Any) -> Any:
    """`all`, 4, "2..4" -> (minimum, maximum); 0 means all hosts as the minimum, no limit as the maximum."""
    if value in ("all", None, ""):
        return (0, 0)
    match = re.fullmatch(r"\s*(\d+)\s*(?:\.\.\s*(\d*))?\s*", str(value))
    low = int(match[1]) if match else 0
    high = low if match is None or ".." not in str(value) else int(match[2] or 0)
    if low < 1 or 0 < high < low:
        raise ValueError(f"{value!r} is not a number of hosts; write all, 4, 2..4 or 2..")
    return (low, high)


def slot_count(value: Any) -> int:
    """A host's ddp_slots as a number, which may be too small. ValueError for what is no whole number."""
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("no whole number")
    try:
        return int(value)
    except TypeError:
        raise ValueError("no number") from None


def ranks_per_host(value: Any) -> Any:
    """`auto` or a number from 1 up."""
    if isinstance(value, str) and value.strip().lstrip("-").isdigit():
        value = int(value)
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"is `auto` or a number from 1 up, not {value!r}")
    return value


def env_texts(value: Any) -> Any:
    """Environment values as strings; None (a bare key) stays None."""
    if not isinstance(value, dict):
        return value
    return {str(k): env_text(v) for k, v in value.items()}


def env_text(value: Any) -> Any:
    """Number as a string, boolean as 1 or 0; other values are returned unchanged."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value) if isinstance(value, int | float) else value


def mounts(value: Any) -> Any:
    """["/data:/data:ro"] or [{source, target, read_only}]."""
    if not isinstance(value, list):
        return value
    return [_mount(item) for item in value]


def _mount(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    parts = item.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] not in ("ro", "rw")):
        raise ValueError(f"{item!r} is not source:target or source:target:ro")
    return {"source": parts[0], "target": parts[1], "read_only": parts[2:] == ["ro"]}
