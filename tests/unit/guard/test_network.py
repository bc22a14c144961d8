"""Network facts: what tc says, as data."""

from __future__ import annotations

from ddp_play.guard.network import parse_shaping


def test_a_token_bucket_at_the_root_is_the_speed() -> None:
    text = (
        '[{"kind":"tbf","dev":"eth0","root":true,"options":{"rate":25000000}},'
        '{"kind":"noqueue","dev":"eth1","root":true,"options":{}},{"kind":"tbf","dev":"eth2","options":{"rate":125}}]'
    )
    assert parse_shaping(text) == {"eth0": 200}
    assert parse_shaping("[]") == {}
