"""The order of `ddp-play top`."""

from __future__ import annotations

import json

from ddp_play.guard.late_orders import LateOrders
from ddp_play.run.host_frames import checked_answer


def test_the_answer_has_the_shape_that_the_controller_expects() -> None:
    sent: list[tuple[str, bytes]] = []
    late = LateOrders(lambda kind, payload=b"", **_fields: sent.append((kind, payload)))
    late.obey({"t": "activity_read", "n": 0})
    late.obey({"t": "activity_read", "n": 0})
    assert [kind for kind, _ in sent] == ["activity_read"] * 2
    first, second = (checked_answer("activity", json.loads(payload)) for _, payload in sent)
    assert "cpu" not in first
    assert second["cores"] >= 1
    assert second["cpu"] >= 0
