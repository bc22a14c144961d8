"""The process that writes a run's report after its end: nobody waits for it, so it makes way for all other work.

The next run may begin at the same moment. More than half of this process's time is spent on imports, so it lowers its
priority before them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

NICENESS = 19


def main() -> None:
    """Write the report of the run whose directory is the argument."""
    with suppress(OSError):
        os.nice(NICENESS)
    from ddp_play.bundle.paths import RunPaths  # noqa: PLC0415 - see above
    from ddp_play.report.write_report import write_at_end  # noqa: PLC0415 - see above

    write_at_end(RunPaths(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
