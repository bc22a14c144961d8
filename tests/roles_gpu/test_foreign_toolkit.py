"""nvidia_container_toolkit on a toolkit of the site: used as it is, or refused; never replaced or removed unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu.test_companions import GPUS, TOOLKIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.hosts import Host, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NAMES = (
    "libnvidia-container1",
    "libnvidia-container-tools",
    "nvidia-container-toolkit-base",
    "nvidia-container-toolkit",
)
THEIR_REPOSITORY = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
WATCH = "nvidia-cdi-refresh.path"
STATE = (
    "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' '*nvidia-container*' nvidia-docker2 2>/dev/null;"
    f" systemctl is-enabled {WATCH}; systemctl is-active {WATCH}; ls /etc/ddp-play;"
    " cd /etc/apt && find . -name '*nvidia*' -type f | sort | xargs -r sha256sum"
)


def play(host: Host, *flags: str, tasks_from: str = "main", **changes: Any) -> Outcome:
    variables = TOOLKIT | {f"nvidia_container_toolkit_{key}": value for key, value in changes.items()}
    return host.play("nvidia_container_toolkit", variables, *flags, tasks_from=tasks_from)


def state(host: Host) -> str:
    return host.sh(STATE, check=False)


def installed(host: Host, *packages: str) -> None:
    """What the site has installed itself, from a repository that it has defined itself."""
    host.sh(f"echo 'deb [trusted=yes] file:/srv/stub ./' > {THEIR_REPOSITORY}; apt-get update -qq")
    host.sh(f"apt-get install -y -qq {' '.join(packages)}")


def toolkit(version: str) -> list[str]:
    return [f"{name}={version}-1" for name in NAMES]


@pytest.fixture(autouse=True)
def _bare(host: Host) -> Iterator[None]:
    host.show(GPUS)
    yield
    host.sh(f"systemctl disable --now {WATCH}", check=False)
    for packages in ("'*nvidia-container*'", "nvidia-docker2"):
        host.sh(f"apt-get purge -y -qq --allow-change-held-packages {packages}", check=False)
    host.sh(f"rm -rf {THEIR_REPOSITORY}* /etc/ddp-play; systemctl daemon-reload; apt-get update -qq", check=False)


def test_one_that_is_recent_enough_is_used_as_it_is(host: Host) -> None:
    """Only the watch, which the site had not enabled, is enabled until the role is removed."""
    installed(host, *toolkit("1.19.1"))
    host.sh("apt-mark hold libnvidia-container1")
    before = state(host)
    first = play(host)
    assert first.rc == 0, first.text
    assert "keeps its nvidia-container-toolkit 1.19.1; nvidia_container_toolkit_replace: true" in first.text
    assert host.sh("apt-mark showhold").split() == ["libnvidia-container1"]
    assert host.sh(f"systemctl is-enabled {WATCH}").strip() == "enabled"
    second = play(host)
    assert (second.rc, second.changed) == (0, 0), second.text
    verified = play(host, tasks_from="verify")
    assert (verified.rc, verified.changed) == (0, 0), verified.text
    removed = play(host, tasks_from="remove")
    assert removed.rc == 0, removed.text
    assert "toolkit that this role has not installed: libnvidia-container-tools libnvidia-container1" in removed.text
    assert state(host) == before


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        (toolkit("1.17.8"), "nvidia-container-toolkit-base 1.17.8: ranks need nvidia-container-toolkit 1.18 or newer"),
        (["nvidia-docker2"], "nvidia-docker2 2.13.0: ranks need nvidia-container-toolkit 1.18 or newer"),
    ],
    ids=["old", "predecessor"],
)
def test_others_are_refused_and_replaced_only_if_asked(host: Host, packages: list[str], reason: str) -> None:
    """Their definition of the repository is set aside meanwhile, and comes back when the role is removed."""
    installed(host, *packages)
    before = state(host)
    for outcome in (play(host), play(host, "--check"), play(host, tasks_from="verify")):
        assert outcome.rc != 0, outcome.text
        assert reason in outcome.text
        assert "set nvidia_container_toolkit_replace" in outcome.text
    assert state(host) == before

    missing = play(host, replace=True, version="9.9.9")
    assert missing.rc != 0
    assert "failed in step plan, nothing was removed" in missing.text
    there = state(host).replace("accounts\nrecord.json\n", "")
    assert there == before, "the definition of their repository is back too"
    replaced = play(host, replace=True)
    assert replaced.rc == 0, replaced.text
    listed = state(host)
    assert "nvidia-container-toolkit 1.20.0-1 hi" in listed
    assert "nvidia-docker2 2.13.0-1 ii" not in listed
    assert play(host, replace=True).changed == 0
    removed = play(host, replace=True, tasks_from="remove")
    assert removed.rc == 0, removed.text
    assert host.sh(f"cat {THEIR_REPOSITORY}").startswith("deb [trusted=yes] file:/srv/stub")
    assert host.sh("apt-mark showhold") == ""


def test_one_in_the_wanted_version_is_the_sites_too(host: Host) -> None:
    """Its repository is defined once; a second definition with another key would break every update of the host."""
    installed(host, *toolkit("1.20.0"))
    host.sh("apt-mark hold nvidia-container-toolkit")
    before = state(host)
    first = play(host)
    assert first.rc == 0, first.text
    assert host.sh("apt-mark showhold").split() == ["nvidia-container-toolkit"]
    assert host.sh("ls /etc/apt/sources.list.d | grep ddp-nvidia", check=False) == ""
    host.sh("apt-get update --error-on=any")
    assert play(host).changed == 0
    removed = play(host, tasks_from="remove")
    assert removed.rc == 0, removed.text
    assert state(host) == before


def test_parts_in_the_wanted_version_keep_the_holds_of_the_site(host: Host) -> None:
    installed(host, *toolkit("1.20.0")[:2])
    host.sh("apt-mark hold libnvidia-container1")
    before = state(host)
    assert play(host, hold=False).rc == 0
    assert host.sh("apt-mark showhold").split() == ["libnvidia-container1"]
    assert play(host).rc == 0
    assert sorted(host.sh("apt-mark showhold").split()) == sorted(NAMES)
    unheld = play(host, hold=False)
    assert unheld.rc == 0, unheld.text
    assert host.sh("apt-mark showhold").split() == ["libnvidia-container1"]
    assert play(host, hold=False).changed == 0
    removed = play(host, tasks_from="remove")
    assert removed.rc == 0, removed.text
    assert state(host) == before
