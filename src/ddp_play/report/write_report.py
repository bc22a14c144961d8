"""Report of a run as a file: for `ddp-play report`, and for the process that every run starts at its end."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, write_text
from ddp_play.bundle.run_lookup import Run, load
from ddp_play.report.report_data import report_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def made_document(run: Run) -> dict[str, Any]:
    """The document of a report."""
    with _no_garbage():
        return report_document(run)


def made_page(document: Mapping[str, Any]) -> str:
    """The page of the document."""
    from ddp_play.report.report_page import report_page  # noqa: PLC0415 - matplotlib takes half a second to import

    with _no_garbage():
        return report_page(document)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Without Python's collection of garbage, which would take a fifth of the time and find next to nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def write_at_end(paths: RunPaths) -> None:
    """Write the report of a run that has just ended into its bundle, unless the bundle was removed meanwhile.

    A place that takes no file, such as a full disk, is a line of the log.
    """
    page = made_page(made_document(load(paths)))
    if paths.run.exists():
        try:
            write_text(paths.report, page)
        except OSError as error:
            sys.stderr.write(f"no report: {paths.report}: {error.strerror or error}; ddp-play report makes it later\n")
