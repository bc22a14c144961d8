"""A package manager's calls, and a host whose packages need one another, for tests of recorded_packages."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from ansible_collections.ddp.play.plugins.modules import recorded_packages

from tests.unit.modules.stand_in import StandIn

if TYPE_CHECKING:
    import pytest

ABORTED = "Error: Operation aborted.\n"
NEEDS = {"chrony": {"libedit2"}, "theirs": {"libedit2"}, "tool": {"chrony"}}


def manager(monkeypatch: pytest.MonkeyPatch, stand_in: StandIn, *, apt: bool = True) -> Any:
    """The calls of a package manager; packages need what `stand_in` answers."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if apt else None)
    stand_in.params.setdefault("lock_timeout_s", 3)
    module: Any = stand_in
    return recorded_packages.Manager(module)


class Host(StandIn):
    """A host with packages, of which some need others."""

    def __init__(self, there: set[str], *, apt: bool = True, **params: Any) -> None:
        super().__init__(self.manage, role="r", **params)
        self.there = there
        self.apt = apt

    def manage(self, argv: list[str]) -> tuple[int, str, str]:
        names = [word for word in argv if word in {*NEEDS, "libedit2", "old", "bash"}]
        if argv[0] == "dpkg-query":
            return 0, "".join(f"{name} installed\n" for name in sorted(self.there)), ""
        if argv[0] == "rpm":
            return (0, "\n".join(self.there), "") if "--query" in argv else (0, "", "")
        if "--simulate" in argv and "purge" in argv:
            going = {*names, *(name for name in self.there if NEEDS.get(name, set()) & set(names))}
            return 0, "".join(f"Purg {name} [1]\n" for name in going), ""
        if "--simulate" in argv:
            return 0, "Inst chrony (4)\nInst libedit2 (3)\n", ""
        if "--assumeno" in argv:
            return (
                1,
                "Installing:\n chrony  4\nInstalling dependencies:\n libedit2  3\n\nTransaction Summary\n",
                ABORTED,
            )
        if "install" in argv:
            self.there |= {*names, *(["libedit2"] if "chrony" in names else [])}
        elif "purge" in argv or "remove" in argv:
            self.there -= set(names)
        return 0, "", ""
