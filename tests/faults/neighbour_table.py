"""Faults that other runs and other users of the same hosts cause, and what must come of each."""

from __future__ import annotations

import dataclasses

from tests.faults import neighbour_acts, other_run_acts
from tests.faults.expectations import COLLECT_S
from tests.faults.rows import DONE, Row

LONG = ("--steps", "100000")
# The hosts are examined when the other runs have ended too.
AFTER_OTHERS = dataclasses.replace(DONE, clean_s=90.0)

OTHER_RUNS = (
    Row(
        "another controller uses the name, slots taken",
        DONE,
        other_run_acts.others_with_this_name_are_refused,
        victim=LONG,
        after=other_run_acts.end_others,
    ),
    Row(
        "another controller uses the name, slots free",
        DONE,
        other_run_acts.others_with_this_name_are_refused,
        victim=LONG,
        job={"ranks_per_host": 1},
        options=("-e", "ddp_slots=2"),
        after=other_run_acts.end_others,
    ),
    Row(
        "two controllers wait under one name",
        AFTER_OTHERS,
        other_run_acts.a_waiter_has_the_name_first,
        victim=LONG,
        after=other_run_acts.end_others,
    ),
    Row(
        "the first waiter of the queue SIGKILLed",
        AFTER_OTHERS,
        other_run_acts.kill_the_waiter_ahead,
        victim=LONG,
        on=("lab",),
        after=other_run_acts.end_others,
    ),
)

OTHER_USERS = (
    Row(
        "another user of a host tries every path, process and socket",
        DONE,
        neighbour_acts.neighbour_tries_everything,
        victim=LONG,
        before=neighbour_acts.take_names_before,
        after=neighbour_acts.give_names_back,
    ),
    Row(
        "ranks plant symbolic links",
        # what is not whole stays: the working directory
        dataclasses.replace(DONE, missing=True, clean_s=COLLECT_S, remains={"h1": ("files",)}),
        job={
            "command": ["sh", "plant.sh"],
            "user": f"{neighbour_acts.RANKS}:{neighbour_acts.RANKS}",
            "artifacts": ["**"],
        },
        under_way=False,
        before=neighbour_acts.plant_links,
        on=("here",),
        quick=True,
        check=neighbour_acts.nothing_foreign_is_collected,
    ),
)
