"""The limit of a playbook that runs: every name of it has to be in the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.plugin_utils.limit import refuse_unknown_limit, usage_failure

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = {"all": ["h1", "h2"], "ungrouped": [], "ranks": ["h1", "h2"]}


@pytest.mark.parametrize("limit", [None, "h1", "ranks:!h2", "@limit.txt"])
def test_names_of_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "limit.txt").write_text("h1\n")
    refuse_unknown_limit({"groups": GROUPS, **({"ansible_limit": limit} if limit else {})})


def test_another_name_fails_the_task_as_a_mistake_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="'h3' is no host and no group") as found:
        refuse_unknown_limit({"groups": GROUPS, "ansible_limit": "h1,h3"})
    failure: dict[str, Any] = usage_failure(found.value)
    assert failure["failed"]
    assert failure["usage_error"]["message"] == found.value.message
