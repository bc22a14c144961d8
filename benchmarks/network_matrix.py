"""Detection and false alarms of the network matrix in simulated fleets: `python -m benchmarks.network_matrix`.

It prints the table of docs/checks-network.md, and contacts no host.
"""

from __future__ import annotations

import argparse

from tests.unit.checks.simulated_fleet import CASES, applies, rates

SIZES = (2, 3, 8, 64, 512)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=200, help="simulated fleets for each case and size")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    given = parser.parse_args()
    print("| defect | " + " | ".join(f"{size} hosts" for size in SIZES) + " |")
    print("|---|" + "---|" * len(SIZES))
    for case in CASES:
        if given.only not in case.name:
            continue
        cells = []
        for size in SIZES:
            if not applies(case, size):
                cells.append("")
                continue
            found = rates(case, size, range(max(10, given.fleets * 8 // max(8, size))))
            cells.append(f"{found.found / found.num:.1%}, {found.blamed_wrongly}/{found.num}")
        print(f"| {case.name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
