"""Probes between the hosts before the start: addresses, the rendezvous port, locks on a shared directory."""

from __future__ import annotations

import pytest

from ddp_play.errors import HostNotReady, HostUnfit
from ddp_play.guard.protocol import encode
from tests.unit.build import shared
from tests.unit.run.conftest import Make, done


def test_hosts_that_do_not_reach_each_other_are_named(make: Make) -> None:
    stage = make(2, probe=True)
    bad = {"address": "10.0.0.2", "port": 40000, "problem": "No route to host"}
    stage.far["h2"].answers["probe"] = [encode("probed", failed=[bad])]
    with pytest.raises(
        HostNotReady, match=r"h2 \(10\.0\.0\.3\) does not reach h1 \(10\.0\.0\.2\): No route to host"
    ) as caught:
        stage.supervisor().run()
    assert "ddp-play check -i INVENTORY tries each port" in caught.value.hint
    assert "go" not in stage.far["h1"].kinds()


def test_the_rendezvous_port_is_probed_too(make: Make) -> None:
    stage = make(3, probe=True)
    for name in ("h1", "h2", "h3"):
        done(stage, name)
    port = 29500
    stage.supervisor().run()
    assert [stage.far[name].order("listen")["also"] for name in ("h1", "h2", "h3")] == [port, 0, 0]
    assert ["10.0.0.2", port] in stage.far["h3"].order("probe")["targets"]
    assert ["10.0.0.2", port] not in stage.far["h1"].order("probe")["targets"]
    blocked = {"address": "10.0.0.2", "port": port, "problem": "timed out"}
    stage.far["h2"].answers["probe"] = [encode("probed", failed=[blocked])]
    with pytest.raises(HostNotReady, match=r"does not reach h1 \(10\.0\.0\.2, rendezvous port 29500\)"):
        stage.supervisor().run()


def test_a_rendezvous_file_needs_locks_and_no_port(make: Make) -> None:
    stage = make(2, probe=True, init_method="file", facts={"shared": shared()})
    for name in ("h1", "h2"):
        done(stage, name)
    stage.far["h1"].answers.update(hold_lock=[encode("lock_held")], drop_lock=[encode("lock_dropped")])
    stage.far["h2"].answers["see_lock"] = [encode("lock_seen", problem="")]
    stage.supervisor().run()
    assert stage.far["h1"].order("listen")["also"] == 0
    path = "/shared/.ddp-play/calm-otter-1/rendezvous-1.lock"
    assert stage.far["h1"].order("hold_lock")["path"] == stage.far["h2"].order("see_lock")["path"] == path
    stage.far["h2"].answers["see_lock"] = [encode("lock_seen", problem="a lock that another host holds is not seen")]
    with pytest.raises(HostNotReady, match="ranks cannot use a rendezvous file on /shared:\nh2: a lock") as caught:
        stage.supervisor().run()
    assert "nolock" in caught.value.hint


def test_one_host_is_not_probed(make: Make) -> None:
    stage = make(1, probe=True, network="")
    done(stage, "h1")
    stage.supervisor().run()
    assert "probe" not in stage.far["h1"].kinds()


def test_a_host_that_no_other_reaches_is_the_one_at_fault(make: Make) -> None:
    stage = make(3, probe=True)
    closed = [{"address": "10.0.0.3", "port": 40000, "problem": "timed out"}]
    for name in ("h1", "h3"):
        stage.far[name].answers["probe"] = [encode("probed", failed=closed)]
    with pytest.raises(HostUnfit, match=r"h3 \(10\.0\.0\.4\) does not reach h2") as caught:
        stage.supervisor().run()
    assert caught.value.hosts == ("h2",)
    assert ["10.0.0.3", 40000] in stage.far["h3"].order("probe")["targets"]
    stage.far["h1"].answers.pop("probe")
    with pytest.raises(HostUnfit, match="does not reach") as caught:
        stage.supervisor().run()
    assert caught.value.hosts == ()
