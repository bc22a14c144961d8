"""Error of a run that has no supervisor any more, for verbs that report or wait for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.run_lookup import never_started
from ddp_play.errors import InternalError

if TYPE_CHECKING:
    from ddp_play.bundle.run_lookup import Run


def lost_supervisor(run: Run) -> InternalError:
    """The error with the command that takes the run over."""
    ranks = "" if never_started(run) else "; its ranks may go on"
    run_id = run.paths.run_id
    return InternalError(f"run {run_id} has no supervisor any more{ranks}", hint=f"ddp-play attach {run_id} takes over")


def refuse_unattended(run: Run) -> None:
    """Raise the error if the run lost its supervisor before its end, so that nothing will change any more."""
    if run.unattended:
        raise lost_supervisor(run)
