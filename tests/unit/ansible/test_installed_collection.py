"""Another build of the collection is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ddp_play.ansible import installed_collection
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.errors import InternalError


def test_another_build_of_the_collection_is_refused(tmp_path: Path) -> None:
    for folder in ("plugins/action", "plugins/plugin_utils", "roles/ddp_job", "templates"):
        shutil.copytree(collection_root() / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    plugin = tmp_path / "plugins" / "action" / "run.py"
    installed_collection.check_same_build(plugin)
    installed_collection.check_same_build(collection_root() / "plugins" / "action" / "run.py")
    plugin.write_text(plugin.read_text() + "# changed\n")
    with pytest.raises(InternalError, match="which is another build"):
        installed_collection.check_same_build(plugin)
