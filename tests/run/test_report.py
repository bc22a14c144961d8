"""Every run writes its report at its end: after a good one, and where its supervisor outlives the command's process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.endings import kill_each
from tests.run.conftest import LOCAL, Play
from tests.unit.report.bundles import ended_bundle, write_metrics, write_samples
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

DAY_S, PATIENCE = 86_400, 15
SCRIPT = """
import json, os, time
with open(os.environ["DDP_PLAY_METRICS"], "a", buffering=1) as metrics:
    for step in range(STEPS):
        metrics.write(json.dumps({"time": time.time(), "step": step, "loss": 1 / (step + 1)}) + "\\n")
        time.sleep(0.1)
"""


@pytest.fixture
def _reports(play: Play) -> None:
    play.environment["DDP_PLAY_REPORT"] = "yes"


def job(play: Play, steps: int) -> Path:
    return play.job({"command": ["python", "-c", SCRIPT.replace("STEPS", str(steps))]})


def written(bundle: Path) -> str:
    """The report, once it is there."""
    page = bundle / "report.html"
    wait_until(page.is_file, what="a report", timeout_s=60)
    return page.read_text()


@pytest.mark.usefixtures("_reports")
def test_a_run_leaves_its_report_and_ends_as_it_did(play: Play) -> None:
    done = play("run", job(play, 3), "-i", LOCAL, "--name", "seen")
    assert done.code == 0, done.err
    page = written(play.newest())
    assert "seen succeeded after" in page
    assert ">loss<" in page.replace(" ", "").replace("\n", "")
    document: dict[str, Any] = json.loads((play.newest() / "run.json").read_text())
    assert (document["status"], document["finished"]) == ("succeeded", True)


@pytest.mark.usefixtures("_reports")
def test_the_supervisor_writes_it_where_the_background_process_was_killed(play: Play) -> None:
    done = play("run", job(play, 60), "-i", LOCAL, "--name", "orphan", "-d")
    assert done.code == 0, done.err
    wait_until(lambda: play.document().get("status") == "running", what="a running run")
    kill_each([json.loads((play.newest() / "background.json").read_text())["pid"]])
    assert "orphan succeeded after" in written(play.newest())


def test_sixty_four_ranks_and_a_day_are_a_page_that_can_be_sent(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(play.home))
    paths = ended_bundle("day", num_hosts=8, ranks_per_host=8, length=DAY_S)
    write_metrics(paths, range(64), length=DAY_S, every_s=30)
    write_samples(paths, length=DAY_S, every_s=48, num_gpus=8)
    began = time.monotonic()
    done = play("report", "day")
    took_s = time.monotonic() - began
    assert done.out.strip() == str(paths.report)
    assert paths.report.stat().st_size < 2_000_000
    assert took_s < 2 * PATIENCE, "two seconds on a machine that has nothing else to do"
