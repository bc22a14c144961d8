"""What a report cannot show: files that were not collected, and data that the run did not leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.summary import counted, missing_files
from ddp_play.planning.short_lists import short_list
from ddp_play.report.environment_table import ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddp_play.report.run_attempts import RunStory


def missing_parts(story: RunStory, document: Mapping[str, Any]) -> list[str]:
    """A sentence for each."""
    return [*_uncollected(story), *_absent(story, document), *_shortened(document)]


def _uncollected(story: RunStory) -> Iterator[str]:
    run = story.run.document
    for row in missing_files(run):
        yield f"not collected from {row}"
    for host, rows in (run.get("left_behind") or {}).items():
        yield f"still on {host}: {'; '.join(map(str, rows))}"
    if story.run.unattended:
        yield (
            "the end of the run: its supervisor is gone. ddp-play attach "
            f"{story.run.paths.run_id} goes on with it, or ends it; then make the report again"
        )


def _absent(story: RunStory, document: Mapping[str, Any]) -> Iterator[str]:
    newest = story.attempts[-1]
    if not newest.hosts:
        yield "a plan: the run ended, or was given up, before hosts were chosen"
        return
    incomplete = [row["rank"] for row in document["ranks"] if not row["log_complete"] and row["state"] != "created"]
    if incomplete and story.run.status.final:
        yield f"the complete logs of {'rank' if len(incomplete) == 1 else 'ranks'} {ranges(incomplete)}"
    if not document["metrics"]["panels"]:
        yield "metrics: no rank wrote to DDP_PLAY_METRICS"
    if without := document["samples"]["without"]:
        yield f"samples of {short_list(without)}"
    if not document["traffic"]["rows"]:
        yield "network traffic: it is counted from the start of the ranks to their collected end"
    without_env = len(newest.ranks) - document["environment"]["num_ranks"]
    if without_env:
        yield f"the env-files of {counted(without_env, 'rank')}"


def _shortened(document: Mapping[str, Any]) -> Iterator[str]:
    metrics = document["metrics"]
    if not metrics["is_whole"]:
        yield "most rows of the metrics: of so many, rows were read at even intervals; peaks in between are not shown"
    if not document["samples"]["is_whole"]:
        yield "some of the samples: of so many, rows were read at even intervals"
    if metrics["rows_without_time"]:
        rows = counted(metrics["rows_without_time"], "row")
        yield f"the time of {rows} of metrics: they are spread evenly over the run"
    if metrics["left_out"]:
        yield f"curves of these metrics: {short_list(metrics['left_out'], 20)}"
    if number := document["timeline"]["hosts_left_out"]:
        yield f"{counted(number, 'host')} in the timeline, of those on which nothing failed"
    if number := document["events"]["left_out"]:
        yield f"{counted(number, 'event')}; events.jsonl has all"
