"""The process that writes a report after a run."""

from __future__ import annotations

import subprocess
import sys

from .bundles import ended_bundle

# Says how far it lowers its priority, and which of the package's modules it has imported by then.
PROGRAM = """
import os, sys
os.nice = lambda by: print(by, sorted(name for name in sys.modules if name.startswith("ddp_play.")))
from ddp_play.report import report_process
report_process.main()
"""


def test_it_makes_way_for_other_work_before_its_imports_and_writes_into_the_bundle() -> None:
    paths = ended_bundle()
    command = [sys.executable, "-c", PROGRAM, str(paths.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "19 ['ddp_play.report', 'ddp_play.report.report_process']\n"
    assert "calm-otter-1" in paths.report.read_text()
