"""Hosts that could not be asked are the error of a verb that asks them, whatever it showed of the others."""

from __future__ import annotations

import pytest

from ddp_play.cli.unasked_hosts import refuse_unasked
from ddp_play.errors import HostNotReady


def test_every_host_is_named_with_its_reason() -> None:
    with pytest.raises(HostNotReady) as found:
        refuse_unasked({"h2": "no route", "h1": "no python\n  -> install one"})
    assert found.value.message == "h1 could not be asked: no python\n  -> install one\nh2 could not be asked: no route"
    assert (found.value.hosts, found.value.hint, found.value.exit_code) == (("h1", "h2"), "", 69)


def test_without_a_remedy_of_its_own_doctor_looks_at_the_host() -> None:
    with pytest.raises(HostNotReady) as found:
        refuse_unasked({"h2": "no route"})
    assert found.value.hint == "ddp-play doctor -i INVENTORY looks at each host"


def test_all_hosts_answered() -> None:
    refuse_unasked({})
