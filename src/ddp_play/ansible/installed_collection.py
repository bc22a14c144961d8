"""Location of the Ansible collection that belongs to this package, and the check that both are of the same build."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from importlib.resources import files
from pathlib import Path

from ddp_play.errors import InternalError


@cache
def collection_root() -> Path:
    """Directory of the collection, in the checkout or in site-packages. Raises InternalError if it is missing."""
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
    raise InternalError("the Ansible collection ddp.play is not installed with ddp_play", hint="pip install ddp-play")


def demo_playbook() -> Path:
    """Playbook of `ddp-play run` without arguments."""
    return collection_root() / "playbooks" / "train.yml"


def demo_inventory() -> Path:
    """Inventory of the demo: two ranks on this machine."""
    return collection_root() / "inventory" / "local"


def check_same_build(plugin: Path) -> None:
    """Raise InternalError if Ansible loaded the collection from another build than this package."""
    loaded, ours = plugin.resolve().parents[2], collection_root().resolve()
    if loaded != ours and _content_hash(loaded) != _content_hash(ours):
        raise InternalError(
            f"Ansible loads the collection ddp.play from {loaded}, which is another build than the package at {ours}",
            hint="install both from one wheel, or remove the older one",
        )


def _content_hash(root: Path) -> str:
    digest = hashlib.sha256()
    for folder in ("plugins/action", "plugins/plugin_utils", "roles/ddp_job", "templates"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()
