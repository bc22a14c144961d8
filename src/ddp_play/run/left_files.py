"""What becomes of files that a run leaves on hosts: the command that fetches or removes them, or that none does.

Hosts that an engine gives for one run cannot be reached when the run is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import HOST_LOST
from ddp_play.engines.registry import engine_of
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.engines.route import Route
    from ddp_play.run.waiting_files import WaitingFiles


# Option of `attach`.
ARTIFACTS_MAX_MIB = "--artifacts-max-mib"


@dataclass(frozen=True, slots=True)
class LeftFiles:
    """Ends of sentences about what is left. `over`: why no host can be reached after the run; empty if they can."""

    run_id: str
    over: str = ""

    @classmethod
    def of(cls, run_id: str, routes: Iterable[Route]) -> LeftFiles:
        """Of a run with these routes to its hosts."""
        return cls(run_id, next((engine_of(route).over for route in routes), ""))

    @property
    def collects(self) -> str:
        """Of files that were not collected."""
        return self.then(f"ddp-play attach {self.run_id} collects it")

    @property
    def stay(self) -> str:
        """Of all files of a host of which no command can tell."""
        return f"its files stay in runs/{self.run_id}.* of ddp_state_dir there: {self.over}"

    def then(self, command: str) -> str:
        """Of something that this command finds, as long as the host can be reached."""
        return f"it stays there: {self.over}" if self.over else command

    def when_back(self, command: str) -> str:
        """Of a host that did not answer, which this command asks again."""
        return self.stay if self.over else f"when the host is back, {command}"

    def uncleaned(self, why: str, *, is_collected: bool, limit_mib: int | None = None) -> str:
        """Row about a host that did not confirm the cleanup. `limit_mib`: as in `kept`; None: nothing is missing."""
        then = "ddp-play gc -i INVENTORY --yes removes it" if is_collected else self.collects
        ranks = "" if is_collected or self.over else ", also whether its ranks still run"
        return f"unknown{ranks}: {why}; {self.when_back(then if limit_mib is None else self._sends(limit_mib))}"

    def kept(self, path: str, limit_mib: int = 0) -> str:
        """Row about a directory with files that could not be sent. `limit_mib`: with which some of them can."""
        return f"{path}: not all of it was collected; {self.then(self._sends(limit_mib))}"

    def _sends(self, limit_mib: int) -> str:
        if limit_mib:
            return f"ddp-play attach {self.run_id} {ARTIFACTS_MAX_MIB} {limit_mib} collects what exceeds the limit"
        again = f"ddp-play attach {self.run_id} tries again"
        return f"{again}, ddp-play gc -i INVENTORY --run RUN --yes removes it for good"

    def of_attempt(self, attempt: int, files: WaitingFiles) -> str:
        """Row about what a host still has of an attempt, where it is not known in which directories."""
        what = f"attempt {attempt}"
        return self.kept(what, files.limit_mib) if files.incomplete else self.uncollected(what)

    def uncollected(self, path: str) -> str:
        """Row about a directory that was kept because nothing of it, or not the end of the logs, was collected."""
        return f"{path}: not collected; {self.collects}"

    def advised(self, outcome: Outcome, uncollected: Sequence[str]) -> Outcome:
        """The outcome, of a lost host with what becomes of its files; `uncollected`: hosts that have some."""
        verdict = outcome.verdict
        if verdict.kind != HOST_LOST:
            return outcome
        hint = "the files of all hosts are in the bundle"
        if uncollected and self.over:
            hint = f"{short_list(uncollected, 5)}: {self.stay}"
        elif uncollected:
            their, are = ("its", "is") if len(uncollected) == 1 else ("their", "are")
            names = short_list(uncollected, 5)
            hint = f"when {names} {are} back, ddp-play attach RUN collects {their} files"
        elif outcome.missing:
            hint = "ddp-play results RUN lists what was not collected"
        return replace(outcome, verdict=replace(verdict, hint=hint))
