"""`ddp-play logs`: complete output of the ranks, read from the bundle."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ddp_play.bundle.file_tail import LineTail, size_in_bytes
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lost_supervisor import refuse_unattended
from ddp_play.errors import UsageError
from ddp_play.planning.job_values import parse_seconds
from ddp_play.planning.plan_document import ranks_by_host
from ddp_play.run.engine_runs import find, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.bundle.run_lookup import Run


def logs(
    run_id: options.RunId = "-",
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new lines until the run is over.")] = False,
    rank: Annotated[list[int] | None, typer.Option("--rank", help="Only these ranks.")] = None,
    host: Annotated[list[str] | None, typer.Option("--host", help="Only ranks of these hosts.")] = None,
    grep: Annotated[str, typer.Option("--grep", help="Only lines that match this regular expression.")] = "",
    since: Annotated[str, typer.Option("--since", help="Only output of the last 90s, 10m, 2h.")] = "",
    attempt: Annotated[int, typer.Option("--attempt", help="An earlier attempt of a run that restarted.")] = 0,
    raw: Annotated[bool, typer.Option("--raw", help="One rank's log, byte for byte.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print the ranks' logs as `host:rank: line`; without a run id, those of the newest run.

    [bold]Examples[/]

      ddp-play logs -f

      ddp-play logs calm-otter-123 --rank 3 --since 10m

      ddp-play logs calm-otter-123 --grep 'loss|error'

      ddp-play logs calm-otter-123 --rank 0 --raw > rank0.log
    """
    with error_boundary():
        _refuse_parts(raw and (follow or grep or since))
        run = find(run_id)
        if follow:
            _wait_for_plan(run.paths)
        paths = _attempt_paths(run, attempt)
        chosen = _selected_ranks(paths, rank, host)
        if as_json:
            console.as_json({str(number): str(paths.log(number)) for number in chosen})
            return
        if raw:
            _print_raw(paths, chosen)
            return
        _print(paths, chosen, matches=_matcher(grep), since=since, follow=follow)
        if follow:
            refuse_unattended(load(run.paths))


def _refuse_parts(asked: bool | str) -> None:
    if asked:
        raise UsageError("--raw prints the whole log: no -f, --grep and --since go with it", hint="leave out --raw")


def _wait_for_plan(paths: RunPaths) -> None:
    """Return when a run that is starting has ranks, or is over."""
    while not paths.plan.exists() and load(paths).attended:
        time.sleep(0.1)


def _attempt_paths(run: Run, attempt: int) -> RunPaths:
    """Paths of an attempt's logs; 0 means the newest attempt."""
    newest = int(run.document.get("attempt") or 1)
    if not 0 <= attempt <= newest:
        raise UsageError(f"run {run.paths.run_id} has attempts 1 to {newest}, not {attempt}")
    return run.paths if attempt in (0, newest) else run.paths.attempt(attempt)


def _selected_ranks(paths: RunPaths, ranks: list[int] | None, hosts: list[str] | None) -> dict[int, str]:
    """Host of every selected rank."""
    plan = read_json(paths.plan)
    if not plan:
        raise UsageError(f"run {paths.run_id} has no plan, so it has no ranks", hint=f"ddp-play results {paths.run_id}")
    everything = {rank: name for name, numbers in ranks_by_host(plan).items() for rank in numbers}
    unknown = [str(number) for number in ranks or () if number not in everything]
    if unknown:
        raise UsageError(f"run {paths.run_id} has ranks 0 to {len(everything) - 1}, not {', '.join(unknown)}")
    unknown_hosts = sorted(set(hosts or ()) - set(everything.values()))
    if unknown_hosts:
        raise UsageError(f"run {paths.run_id} has no host {', '.join(unknown_hosts)}")
    return {
        number: name
        for number, name in everything.items()
        if (not ranks or number in ranks) and (not hosts or name in hosts)
    }


def _matcher(grep: str) -> Callable[[str], bool]:
    try:
        pattern = re.compile(grep)
    except re.error as error:
        raise UsageError(f"--grep {grep!r} is not a valid regular expression: {error}") from None
    return lambda line: bool(pattern.search(line))


def _offset_since(paths: RunPaths, rank: int, since: str) -> int:
    """Offset in the log of the first bytes that arrived within the last `since`. Times are recorded per second."""
    if not since:
        return 0
    try:
        begin = time.time() - float(parse_seconds(since))
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    try:
        lines = paths.times(rank).read_bytes().splitlines()
    except OSError:
        return 0
    for line in lines:
        with contextlib.suppress(ValueError):  # a line that a crash or a full disk has torn
            stamp, offset = line.split()
            if float(stamp) >= begin:
                return int(offset)
    return size_in_bytes(paths.log(rank))


def _print_raw(paths: RunPaths, chosen: dict[int, str]) -> None:
    if len(chosen) != 1:
        raise UsageError("--raw prints one rank's log", hint="name it with --rank")
    path = paths.log(next(iter(chosen)))
    if not path.is_file():
        raise UsageError(f"there is no {path}", hint=f"ddp-play results {paths.run_id} says what is missing")
    with path.open("rb") as handle:
        while data := handle.read(1 << 20):
            console.raw(data)


def _print(
    paths: RunPaths, chosen: dict[int, str], *, matches: Callable[[str], bool], since: str, follow: bool
) -> None:
    tails = {number: LineTail(paths.log(number), _offset_since(paths, number, since)) for number in chosen}
    attempt = _attempt(paths)
    while True:
        over = not follow or load(paths).over or not load(paths).attended
        if _attempt(paths) != attempt:  # the run restarted: its earlier logs are in attempts/N now
            moved = paths.attempt(attempt)
            for number, tail in tails.items():
                _print_matching(chosen[number], number, tail.finish_in(moved.log(number)), matches)
            attempt = _attempt(paths)
            everything = _selected_ranks(paths, None, None)
            chosen = {number: everything[number] for number in chosen if number in everything}
            tails = {number: LineTail(paths.log(number)) for number in chosen}
        for number, tail in tails.items():
            while some := tail.some_lines():  # a log may be larger than the memory
                _print_matching(chosen[number], number, some, matches)
            if over:
                _print_matching(chosen[number], number, tail.finish(), matches)
        if over:
            return
        time.sleep(0.1)


def _attempt(paths: RunPaths) -> int:
    return int(read_json(paths.run).get("attempt") or 1)


def _print_matching(host: str, rank: int, lines: list[str], matches: Callable[[str], bool]) -> None:
    for line in lines:
        if matches(line):
            console.plain_line(f"{host}:{rank}: {line}")
