"""Orders of the network matrix on a host, and that the channel passes them on."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from ddp_play.guard.controller_channel import Channel
from ddp_play.guard.late_orders import LateOrders
from ddp_play.guard.refusal import Refused

HERE, TOKEN = "127.0.0.1", "f" * 32


class Answers:
    """What a host has sent."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, kind: str, payload: bytes = b"") -> None:
        self.rows.append((kind, json.loads(payload)))


def host() -> tuple[LateOrders, Answers]:
    answers = Answers()
    return LateOrders(answers), answers


def listen(orders: LateOrders, answers: Answers) -> int:
    orders.obey({"t": "pair_listen", "address": HERE, "interface": "lo", "token": TOKEN})
    kind, row = answers.rows[-1]
    assert kind == "pair_listen"
    assert row["mtu"] > 0
    return int(row["port"])


def test_two_hosts_measure_and_end() -> None:
    (one, said), (other, heard) = host(), host()
    listen(one, said)
    order = {
        "t": "pair_test",
        "pair": "1.0",
        "address": HERE,
        "port": listen(other, heard),
        "streams": 1,
        "seconds": 1.0,
    }
    second = threading.Thread(target=other.obey, args=({**order, "first": False},), daemon=True)
    second.start()
    one.obey({**order, "first": True})
    second.join(20)
    assert said.rows[-1][1]["received"]["mbps"] > 0
    assert heard.rows[-1][1]["received"]["mbps"] > 0
    for orders, answers in ((one, said), (other, heard)):
        orders.obey({"t": "pair_end"})
        assert answers.rows[-1][0] == "pair_end"
        assert orders.known["pair"].listening is None


def test_a_host_that_rests_answers_at_once() -> None:
    orders, answers = host()
    orders.obey({"t": "pair_test"})
    assert answers.rows == [("pair_test", {})]


def test_what_fails_is_an_answer_with_the_reason() -> None:
    orders, answers = host()
    test = {"t": "pair_test", "pair": "1.0", "first": True, "address": HERE, "port": 1, "streams": 1, "seconds": 0.2}
    orders.obey(test)
    assert answers.rows[-1][1] == {"problem": "it does not listen", "unmet": False}
    listen(orders, answers)
    orders.obey(test)
    assert answers.rows[-1][1] == {"problem": "Connection refused", "unmet": True}
    orders.known["pair"].close()


def test_an_address_that_the_host_does_not_have_and_an_unknown_order() -> None:
    orders, _ = host()
    with pytest.raises(Refused, match=r"cannot listen on 192\.0\.2\.1"):
        orders.obey({"t": "pair_listen", "address": "192.0.2.1", "token": TOKEN})
    with pytest.raises(Refused, match="unknown order pair_dance"):
        orders.obey({"t": "pair_dance"})


def test_the_channel_passes_them_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes, dict[str, object]]] = []
    monkeypatch.setattr(
        Channel, "send", lambda _self, kind, payload=b"", **fields: sent.append((kind, payload, fields))
    )
    channel = Channel()
    channel._obey({"t": "pair_test"}, b"")
    channel._obey({"t": "pair_dance"}, b"")
    assert sent[0] == ("pair_test", b"{}", {})
    assert (sent[1][0], sent[1][2]["message"]) == ("refused", "unknown order pair_dance")
