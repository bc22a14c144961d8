"""A rank that prints a thousand lines a second for ten seconds, and nothing else."""

import sys
import time

began = time.monotonic()
for tick in range(200):
    for number in range(tick * 50, tick * 50 + 50):
        sys.stdout.write(
            f"line {number} of a log that is a hundred bytes long, as those of trainers often are or so....\n"
        )
    sys.stdout.flush()
    time.sleep(max(0.0, began + (tick + 1) * 0.05 - time.monotonic()))
