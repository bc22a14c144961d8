"""Where the Ansible collection that belongs to this package is, and that it is the same build."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib.resources import files
from pathlib import Path

from ddp_play.errors import InternalError


@cache
def collection_root() -> Path:
    """The collection's directory: beside us in a checkout, in site-packages after an install."""
    package = Path(str(files("ddp_play"))).resolve()
    checkout = package.parents[1]
    if (checkout / "galaxy.yml").is_file() and (checkout / "roles").is_dir():
        return checkout
    installed = package.parent / "ansible_collections" / "ddp" / "play"
    if installed.is_dir():
        return installed
    spec = importlib.util.find_spec("ansible_collections.ddp.play")
    if spec and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    raise InternalError("the Ansible collection ddp.play is not installed beside ddp_play", hint="pip install ddp-play")


def demo_playbook() -> Path:
    """The playbook of `ddp-play run` without arguments."""
    return collection_root() / "playbooks" / "train.yml"


def demo_inventory() -> Path:
    """The embedded inventory: two ranks on this machine."""
    return collection_root() / "inventory" / "local"
