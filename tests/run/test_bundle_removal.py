"""Removal of the bundles of real runs: one that is over, with its link, and one that is alive."""

from __future__ import annotations

import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]


def test_a_run_that_is_over_goes_and_a_live_one_stays(play: Play) -> None:
    play.write("own.py", "print('here', flush=True)\n")
    link = play.cwd / "result"
    done = play(
        "run",
        play.job({"source": ".", "command": ["python", "own.py"], "artifacts": []}),
        "-i",
        LOCAL,
        "--name",
        "over",
        "--output",
        link,
    )
    assert done.code == 0, done.err
    document = play.document(play.home / "runs" / "over")
    assert document["bundle_bytes"] > 0
    assert link.is_symlink()

    play.write("own.py", "import time\ntime.sleep(600)\n")
    started = play(
        "run", play.job({"source": ".", "command": ["python", "own.py"]}), "-i", LOCAL, "-d", "--name", "live"
    )
    assert started.code == 0, started.err
    wait_until(lambda: play.document(play.home / "runs" / "live")["status"] == "running", what="its ranks run")

    refused = play("rm", "live", "--yes", "--with-artifacts", "--force-uncollected")
    assert refused.code == 1
    assert "kept live: a process works on it" in refused.out
    assert play("rm", "over").code == 1
    assert (play.home / "runs" / "over").is_dir(), "without --yes nothing goes"
    removed = play("rm", "over", "--yes")
    assert removed.code == 0, removed.out + removed.err
    assert not link.is_symlink()
    assert [path.name for path in play.runs()] == ["live"]
    assert play("stop", "live", "--now").code == 0
    assert play.document(play.home / "runs" / "live")["status"] == "stopped"
