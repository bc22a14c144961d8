"""Slurm settings of a job: what sbatch is told about partition, account, limits and nodes."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ddp_play.errors import UsageError


def _text(value: object) -> object:
    """Numbers as texts, for accounts and names that look like one."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Word = Annotated[str, BeforeValidator(_text), Field(pattern=r"^[A-Za-z0-9_.,:=&|*\[\]()@/+-]*$")]
# No numbers: YAML reads 1:30:00 as 5400, and that would be minutes.
Time = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$|^$")]


class SlurmSettings(BaseModel):
    """`ddp_job_slurm`. All but `spares` have the name and the form of sbatch's option; empty: the cluster decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partition: Word = ""
    account: Word = ""
    qos: Word = ""
    time: Time = ""
    constraint: Word = ""
    gres: Word = ""
    reservation: Word = ""
    nodelist: Word = ""
    exclude: Word = ""
    spares: Annotated[int, Field(ge=0)] = 0  # nodes more than ddp_job_hosts, for restarts

    def options(self) -> dict[str, str]:
        """What sbatch has an option for, by its name."""
        return {name: value for name, value in self if name not in ("time", "spares") and value}


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """KEY=VALUE of the command line. UsageError for an unknown key, with the nearest known one."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in SlurmSettings.model_fields:
            near = difflib.get_close_matches(key, SlurmSettings.model_fields, n=1, cutoff=0.6)
            known = f"did you mean {near[0]}=...?" if near else f"known are {', '.join(SlurmSettings.model_fields)}"
            raise UsageError(f"--slurm {pair}: {'no such setting' if equals else 'no = in it'}", hint=known)
        found[key] = value
    return found
