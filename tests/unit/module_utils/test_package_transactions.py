"""Simulated transactions of dnf as text. Those of apt are in tests/unit/removal."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.module_utils import package_transactions

# Layout of dnf 4.14 on a terminal of 80 columns; long names, and rows of packages that are replaced.
TABLE = """\
Last metadata expiration check: 0:00:01 ago on Mon 02 Mar 2026 10:00:00 AM UTC.
Dependencies resolved.
================================================================================
 Package                          Arch    Version            Repository    Size
================================================================================
Installing:
 docker-ce                        x86_64  3:29.0.1-1.el9     docker-ce     23 M
     replacing  moby-engine.x86_64 24.0.5-1.el9
     replacing  docker.io-common.noarch 1:20-1
Upgrading:
 libseccomp                       x86_64  2.5.2-3.el9        baseos        71 k
Installing dependencies:
 a-package-with-a-very-long-name-that-does-not-fit
                                  noarch  1-1                appstream     10 k
 container-selinux                noarch  4:2.235.0-1.el9    appstream     55 k
Installing weak dependencies:
 docker-ce-rootless-extras        x86_64  29.0.1-1.el9       docker-ce    3.4 M
Removing dependent packages:
 podman-docker                    noarch  4:5.2.2-1.el9      @appstream    10 k
Downgrading:
 runc                             x86_64  4:1.1.9-1.el9      appstream    3.0 M
Skipping packages with conflicts:
(add '--best --allowerasing' to command line to force their upgrade):
 skipped                          x86_64  1-1                appstream     10 k

Transaction Summary
================================================================================
Install    4 Packages
 Upgrade    1 Package

Total download size: 30 M
Operation aborted.
"""


def test_dnf_says_what_it_would_do() -> None:
    found = package_transactions.read_dnf(TABLE)
    assert found.added == [
        "docker-ce",
        "a-package-with-a-very-long-name-that-does-not-fit",
        "container-selinux",
        "docker-ce-rootless-extras",
    ]
    assert (found.upgraded, found.downgraded) == (["libseccomp"], ["runc"])
    assert found.removed == ["docker.io-common", "moby-engine", "podman-docker"]


def test_nothing_to_do_is_an_empty_transaction() -> None:
    assert package_transactions.read_dnf("Dependencies resolved.\nNothing to do.\nComplete!\n") == ([], [], [], [])


@pytest.mark.parametrize(
    ("names", "stay"),
    [
        ([], []),
        (["engine", "cli", "selinux"], []),
        (["engine", "cli", "selinux", "shared"], ["shared"]),
        (["shared"], ["shared"]),
        (["shared", "a", "b"], ["shared", "a", "b"]),
    ],
)
def test_one_package_that_others_need_does_not_keep_the_rest(names: list[str], stay: list[str]) -> None:
    """The engine needs two of them; a and b need each other, so that neither goes alone."""
    needs = {"engine": {"cli", "selinux", "shared"}, "podman": {"shared"}, "a": {"b"}, "b": {"a"}}
    there = {"engine", "cli", "selinux", "shared", "podman", "a", "b"}

    def erases(some: list[str]) -> bool:
        return not any(needs.get(name, set()) & set(some) for name in there - set(some))

    assert package_transactions.not_erased(names, erases) == stay
