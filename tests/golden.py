"""`python -m tests.golden`: write the golden files anew. Read the diff: it is what users will notice."""

from __future__ import annotations

import os
import time

from tests.content.test_help import GOLDEN as HELP
from tests.content.test_help import VERBS, golden_file, help_text
from tests.unit.cli.screen.test_fleet_page import WIDTHS
from tests.unit.cli.screen.test_fleet_page import text_of as top_text
from tests.unit.cli.screen.test_screen_frame import GOLDEN as SCREENS
from tests.unit.cli.screen.test_screen_frame import PAGES, SIZES, text_of
from tests.unit.planning.test_planner_whole_plans import GOLDEN as PLANS
from tests.unit.planning.test_planner_whole_plans import WHOLE, as_text, whole


def main() -> None:
    """Plans, help texts and screens."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in WHOLE:
        (PLANS / f"plan-{name}.json").write_text(as_text(whole(name)), encoding="utf-8")
    for path in HELP.glob("*.txt"):
        path.unlink()
    HELP.mkdir(parents=True, exist_ok=True)
    for words in VERBS:
        golden_file(words).write_text(help_text(words), encoding="utf-8")
    for name in PAGES:
        for size in SIZES:
            (SCREENS / f"{name}-{size.width}.txt").write_text(text_of(name, size), encoding="utf-8")
    for width in WIDTHS:
        (SCREENS / f"top-{width}.txt").write_text(top_text(width), encoding="utf-8")


if __name__ == "__main__":
    main()
