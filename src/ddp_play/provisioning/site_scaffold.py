"""Files of a new site: the documented example inventory, a first job, a vault example, the next commands."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

ALL_HOSTS_VARIABLES = "inventory/group_vars/all"


def write_site(directory: Path) -> tuple[Path, ...]:
    """Write the files and return their relative paths. Raises UsageError if the directory is not new or empty."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", hint="give the name of a new directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="give a new or an empty directory; nothing was written")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _copy_files(directory)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    return tuple(sorted(path.relative_to(directory) for path in directory.rglob("*") if path.is_file()))


def _copy_files(directory: Path) -> None:
    root = collection_root()
    shutil.copytree(root / "inventory" / "example", directory / "inventory", copy_function=shutil.copyfile)
    # Ansible reads either all.yml or the directory all/. The vault needs its own file next to the settings.
    (directory / ALL_HOSTS_VARIABLES).mkdir()
    (directory / f"{ALL_HOSTS_VARIABLES}.yml").rename(directory / ALL_HOSTS_VARIABLES / "main.yml")
    site = root / "templates" / "site"
    shutil.copyfile(site / "vault.yml.example", directory / ALL_HOSTS_VARIABLES / "vault.yml.example")
    shutil.copytree(site / "job", directory / "job", copy_function=shutil.copyfile)
    for name in ("README.md", "train.yml"):
        shutil.copyfile(site / name, directory / name)
    hosts = directory / "inventory" / "hosts.yml"
    text = hosts.read_text(encoding="utf-8").replace(
        "Copy this directory, change the names, and try:", "Change the names, and try:"
    )
    hosts.write_text(text.replace("-i DIR", "-i inventory"), encoding="utf-8")
