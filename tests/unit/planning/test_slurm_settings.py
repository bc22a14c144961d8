"""Slurm settings: names and forms of sbatch's options."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.job import parse_job
from ddp_play.planning.slurm_settings import SlurmSettings, parse_pairs


def test_settings_of_a_job() -> None:
    settings = parse_job(
        {"command": ["true"], "slurm": {"partition": "gpu", "account": 42, "gres": "gpu:h100:8"}}
    ).slurm
    assert (settings.partition, settings.account, settings.gres, settings.qos) == ("gpu", "42", "gpu:h100:8", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": 5400}, "ddp_job_slurm.time"),  # YAML reads 1:30:00 as this number
        ({"time": "soon"}, "is a time limit as Slurm writes it"),
        ({"partition": "a b"}, "ddp_job_slurm.partition"),
        ({"partition": "--uid=0 x"}, "ddp_job_slurm.partition"),
        ({"partiton": "gpu"}, "ddp_job_slurm.partiton"),
    ],
)
def test_bad_settings_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_job({"command": ["true"], "slurm": given})
    assert message in refused.value.message


def test_pairs_of_the_command_line() -> None:
    assert parse_pairs(["partition=gpu", "constraint=a100&nvlink=1"]) == {
        "partition": "gpu",
        "constraint": "a100&nvlink=1",
    }
    assert parse_pairs([]) == {}


@pytest.mark.parametrize(
    ("pair", "hint"),
    [
        ("partiton=gpu", "did you mean partition=...?"),
        ("zzz=1", "known are partition, account"),
        ("qos", "did you mean qos"),
    ],
)
def test_a_bad_pair_is_named_with_the_nearest_key(pair: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"--slurm {pair}") as refused:
        parse_pairs([pair])
    assert refused.value.hint.startswith(hint)


def test_every_setting_is_an_option_of_sbatch() -> None:
    settings = SlurmSettings.model_validate(dict.fromkeys(SlurmSettings.model_fields, "1"))
    options = {"partition", "account", "qos", "constraint", "gres", "reservation", "nodelist", "exclude"}
    assert settings.options() == dict.fromkeys(options, "1")
    assert SlurmSettings().options() == {}
