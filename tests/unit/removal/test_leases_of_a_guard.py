"""Slots and ports that a guard takes when it starts."""

from __future__ import annotations

import pytest

from ddp_play.guard import daemon, leases


@pytest.mark.parametrize(
    ("names", "need", "taken", "held"), [(2, 1, 0, 1), (2, 2, 1, None), (2, 1, 1, 1), (0, 0, 0, 0)]
)
def test_a_guard_holds_its_slots_or_none(names: int, need: int, taken: int, held: int | None) -> None:
    all_names = [f"slot-{number}" for number in range(names)]
    others = leases.hold_slots(all_names, taken, leases.slot_scope())
    ours = daemon._take_slots({"slots": {"names": all_names, "need": need}})
    assert (None if ours is None else len(ours)) == held
    assert daemon._take_slots({}) == []
    for lease in (*others, *(ours or ())):
        lease.close()


def test_a_lease_that_is_taken_is_named_with_its_holder() -> None:
    with leases.hold("port-7") or pytest.fail("it is free") as lease:
        assert leases.lost("port-7", None).startswith("port-7 by ")
        assert leases.lost("port-7", lease) == "port-7"
    assert leases.lost("port-7", None) == "port-7 by another run"
