"""One error for several hosts: its class, its text, its hint, and the hosts that it names."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.engines.route import Route
from ddp_play.errors import Busy, HostNotReady, NotTakenOver, SlotsTaken, UnknownVersion
from ddp_play.run.host_refusals import raise_not_opened, raise_refusal
from ddp_play.run.link import Link
from ddp_play.testing import FakeChannel, FakeHost


def link(name: str, **refused: Any) -> Link:
    return Link(name, Route(name, ("ssh", name), "channel"), refused=refused or None)


def test_no_host_is_no_error() -> None:
    raise_refusal([], "prepare")


@pytest.mark.parametrize(
    ("kind", "wanted"), [("busy", Busy), ("slots", SlotsTaken), ("version", UnknownVersion), ("new", HostNotReady)]
)
def test_the_class_is_that_of_the_refusal(kind: str, wanted: type[Exception]) -> None:
    with pytest.raises(wanted) as caught:
        raise_refusal([link("h1", message="no", error=kind, hint="")], "prepare")
    assert type(caught.value) is wanted


def test_every_host_is_named_with_its_hint() -> None:
    refused = [link("h1"), link("h2", message="full", hint=""), link("h3", message="gone", hint="mount it")]
    with pytest.raises(HostNotReady) as caught:
        raise_refusal(refused, "prepare")
    assert caught.value.message == "h1: no channel\nh2: full\nh3: gone"
    assert (caught.value.hint, caught.value.hosts) == ("mount it", ("h1", "h2", "h3"))


def test_a_hint_to_copy_an_image_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.image_remedy.is_here", lambda image: False)
    hint = "copy the image from here: ddp-play image load -i INVENTORY --limit HOSTS --image train:2"
    with pytest.raises(HostNotReady) as caught:
        raise_refusal([link("h1", message="cannot pull train:2", hint=hint)], "prepare")
    assert "this machine has no train:2 either" in caught.value.hint


def test_hosts_with_other_reasons_keep_their_own_hints() -> None:
    refused = [link("h1", message="gone", hint="mount it"), link("h2", message="no image", hint="load -l HOSTS")]
    with pytest.raises(HostNotReady) as caught:
        raise_refusal(refused, "prepare")
    assert caught.value.hint == "h1: mount it\nh2: load -l h2"


def test_waiting_is_no_remedy_if_another_host_refuses_for_good() -> None:
    refused = [link("h1", message="gone", hint=""), link("h2", message="slots", hint="--wait", error="slots")]
    for order in (refused, refused[::-1]):
        with pytest.raises(HostNotReady):
            raise_refusal(order, "prepare")


def test_a_refusal_to_open_goes_before_hosts_without_an_answer() -> None:
    with pytest.raises(UnknownVersion) as caught:
        raise_not_opened([link("h1"), link("h2", message="written by 9.9", error="version")], NotTakenOver)
    assert caught.value.hosts == ("h2",)


def test_a_channel_that_breaks_is_named_beside_a_refusal() -> None:
    broken = link("h1")
    channel = FakeChannel(FakeHost("h1"))
    channel.close("no route to host")
    broken.channel = channel  # type: ignore[assignment]
    with pytest.raises(UnknownVersion, match=r"h1: no route to host\nh2: written by 9\.9") as caught:
        raise_not_opened([broken, link("h2", message="written by 9.9", error="version")], NotTakenOver)
    assert caught.value.hosts == ("h1", "h2")


def test_hosts_that_do_not_answer_raise_the_callers_class() -> None:
    with pytest.raises(NotTakenOver, match="no channel to\nh1: no answer") as caught:
        raise_not_opened([link("h1")], NotTakenOver)
    assert "attach" in caught.value.hint
