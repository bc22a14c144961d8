"""What a kept inventory and a started Ansible depend on: the files of the inventory, and the caller's environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BESIDE = ("group_vars", "host_vars")
# More files than an inventory has; a directory like this is read anew for each run.
MOST_FILES = 5000
# Read at import by Python, Ansible and what ansible-runner adds, besides ANSIBLE_*.
READ_AT_IMPORT = (
    "EDITOR", "HOME", "LANG", "LANGUAGE", "LESS", "LOGNAME", "NO_COLOR", "PAGER", "PATH", "TMPDIR", "USER",
    "VIRTUAL_ENV", "ORIGINAL_STDOUT_CALLBACK", "AD_HOC_COMMAND_ID", "AWX_LIB_DIRECTORY", "DISPLAY",
)  # fmt: skip
PREFIXES = ("ANSIBLE_", "PYTHON", "LC_", "XDG_C", "XDG_DATA", "XDG_RUNTIME", "XDG_STATE", "LD_", "RUNNER_", "_ANSIBLE_")
# ansible-runner sets them for each run; Ansible reads them after the fork.
SET_FOR_A_RUN = ("AWX_ISOLATED_DATA_DIR", "ANSIBLE_CACHE_PLUGIN_CONNECTION")
# Of one terminal: no inventory depends on it.
OF_ONE_TERMINAL = ("PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES", "TERM", "WINDOWID", "STY")
PREFIXES_OF_ONE_TERMINAL = ("DDP_PLAY_", "SSH_", "TERM_", "TMUX", "XDG_SESSION_")


def sources_of(argv: Iterable[str]) -> list[str]:
    """The inventories on a command line of ansible-playbook that this package made."""
    words = list(argv)
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-i"]


def signature(sources: list[str]) -> tuple[tuple[str, int, int, int], ...] | None:
    """Name, inode, size and time of change of each file of the inventory; None if there are too many."""
    rows: list[tuple[str, int, int, int]] = []
    for path in _files(sources):
        if len(rows) == MOST_FILES:
            return None
        try:
            found = path.stat()
        except OSError:
            rows.append((str(path), 0, 0, 0))
        else:
            rows.append((str(path), found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(rows)


def _files(sources: list[str]) -> Iterator[Path]:
    for source in sources:
        if "," in source:
            continue
        path = Path(source)
        yield path
        folders = [path] if path.is_dir() else [path.parent / name for name in BESIDE]
        for folder in folders:
            for directory, names, files in os.walk(folder, followlinks=True):
                names.sort()
                yield from (Path(directory, name) for name in sorted([*names, *files]))


def is_static(sources: list[str]) -> bool:
    """Are these files that Ansible only parses? A script or a plugin may read anything, such as the environment."""
    if not sources:
        return False  # those that the configuration names
    return all(_only_parsed(path) for path in _files(sources) if path.is_file())


def _only_parsed(path: Path) -> bool:
    try:
        if path.stat().st_mode & 0o111:
            return False
        if path.suffix not in (".yml", ".yaml"):
            return True
        with path.open("rb") as file:
            return not any(line.lstrip().startswith((b"plugin:", b'"plugin"')) for line in file)
    except OSError:
        return False


def relevant(environment: Mapping[str, str], *, static: bool) -> dict[str, str]:
    """The part of the environment that must be equal for a run in a started Ansible."""
    if static:
        return {k: v for k, v in environment.items() if _at_import(k)}
    return {k: v for k, v in environment.items() if _at_import(k) or not _of_one_run(k)}


def _at_import(name: str) -> bool:
    return name not in SET_FOR_A_RUN and (name in READ_AT_IMPORT or name.startswith(PREFIXES))


def _of_one_run(name: str) -> bool:
    return name in (*SET_FOR_A_RUN, *OF_ONE_TERMINAL) or name.startswith(PREFIXES_OF_ONE_TERMINAL)


def configuration_stamp(environment: Mapping[str, str], cwd: str) -> tuple[tuple[str, int, int], ...]:
    """Size and time of change of the files where Ansible looks for its configuration."""
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
    named = environment.get("ANSIBLE_CONFIG") or "ansible.cfg"
    named = home + named[1:] if named.startswith("~/") else named
    rows = []
    for place in (named, f"{named}/ansible.cfg", "ansible.cfg", f"{home}/.ansible.cfg", "/etc/ansible/ansible.cfg"):
        path = Path(cwd, place)
        try:
            found = path.stat()
        except OSError:
            continue
        rows.append((str(path), found.st_size, found.st_mtime_ns))
    return tuple(rows)


def brings_plugins(argv: Iterable[str]) -> bool:
    """Are there plugins next to a playbook? Ansible finds them before those that it has itself."""
    folders = {Path(word).parent for word in argv if word.endswith((".yml", ".yaml")) and not word.startswith("@")}
    return any(any(folder.glob("*_plugins")) for folder in folders)
