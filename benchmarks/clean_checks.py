"""False alarms of `ddp-play check` on hosts of a lab without a defect: python -m benchmarks.clean_checks LAB.

The lab has four hosts (ddp-play lab up --name LAB --hosts 4 --no-docker). Each check is the command in a process of its
own, over new logins. It prints a line for each check that found something, and how many did.
"""

from __future__ import annotations

import argparse
import statistics
import sys

from ddp_play.checks.fleet import FULL, QUICK
from ddp_play.checks.self_test.defect import HOSTS_OF_LEVEL
from ddp_play.checks.self_test.lab_hosts import LabHosts, NotDone, hosts_of
from ddp_play.checks.self_test.trial import alarms_of_clean


def run(hosts: LabHosts, level: str, number: int) -> int:
    """How many of so many checks were not without a finding."""
    seconds, num_bad = [], 0
    for at in range(1, number + 1):
        try:
            rows, took_s = hosts.check(level, HOSTS_OF_LEVEL[level], ())
            alarms = alarms_of_clean(rows)
            seconds.append(took_s)
        except NotDone as problem:
            alarms = (f"no answer: {problem}",)
        num_bad += bool(alarms)
        for alarm in alarms:
            print(f"{level} {at}: {alarm}", flush=True)
    if number:
        median = f", median {statistics.median(seconds):.1f} s" if seconds else ""
        print(f"{level}: {num_bad} of {number} checks with a false alarm{median}", flush=True)
    return num_bad


def main() -> int:
    """Exit code 1 if a check found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("--quick", type=int, default=300, help="checks of the quick level, default 300")
    parser.add_argument("--full", type=int, default=30, help="checks of the full level, default 30")
    args = parser.parse_args()
    hosts = hosts_of(args.lab)
    return 1 if run(hosts, QUICK, args.quick) + run(hosts, FULL, args.full) else 0


if __name__ == "__main__":
    sys.exit(main())
