"""NCCL's transport during a run: reported once, and InfiniBand that is not used."""

from __future__ import annotations

import pytest

from ddp_play.guard.protocol import encode
from tests.unit.build import ib_host
from tests.unit.run.conftest import OK, Make, done

NOTES = b"""\
g1:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda12.9
g1:1:2 [0] NCCL INFO NET/Socket : Using [0]ib0:10.10.0.1<0>
g1:1:2 [0] NCCL INFO Using network Socket
g1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
g1:1:2 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 9b000 - Init COMPLETE
"""


def test_more_output_of_nccl_does_not_hide_that_infiniband_is_unused(make: Make) -> None:
    """It arrives before the gang is judged, in the same moment."""
    stage = make(facts=tuple(ib_host(f"g{n}", n, num_gpus=1) for n in (1, 2)), fabric="ib")
    first = stage.plan.hosts[0].name
    for name in stage.far:
        stage.ends_on_stop(name)
    more = encode("nccl", b"NCCL INFO more\n", rank=0, at=len(NOTES))
    stage.on_follow(first, encode("nccl", NOTES, rank=0, at=0), more, stage.state(first, "running"))
    assert stage.supervisor().run().verdict.kind == "wrong_fabric"
    assert stage.paths.nccl(0).read_bytes().endswith(b"more\n")


@pytest.mark.parametrize("fabric", ["ib", "ethernet"])
def test_sockets_although_there_is_infiniband(make: Make, fabric: str) -> None:
    """On the InfiniBand fabric it ends the run at once; with `fabric: ethernet` it is a warning."""
    stage = make(facts=tuple(ib_host(f"g{n}", n, num_gpus=1) for n in (1, 2)), fabric=fabric)
    first = stage.plan.hosts[0].name
    for name in stage.far:
        stage.ends_on_stop(name)
    running = stage.state(first, "running")
    stage.on_follow(first, encode("nccl", NOTES, rank=0, at=0), running)
    if fabric == "ethernet":
        for name in stage.far:
            done(stage, name)
        stage.on_follow(first, encode("nccl", NOTES, rank=0, at=0), stage.state(first, "ended", **OK))
        stage.far[first].state = {}
    outcome = stage.supervisor().run()
    assert stage.paths.nccl(0).read_bytes() == NOTES
    assert "network Socket (ib0:10.10.0.1), NET/Socket x1" in stage.events("transport")[0]["words"]
    (warning,) = stage.events("warning")
    assert warning["message"].startswith(
        "InfiniBand is available (mlx5_0:1), but NCCL uses TCP sockets (ib0:10.10.0.1)"
    )
    assert stage.document["nccl"]["warning"] == warning["message"]
    expected = ("wrong_fabric", 1) if fabric == "ib" else ("done", 0)
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == expected
