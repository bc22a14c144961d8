"""Arguments -> options."""

from argparse import Namespace
from pathlib import Path

import pytest

from trainer.__main__ import build_parser
from trainer.train_options import TrainOptions, train_options


def parse_train(*arguments: str) -> Namespace:
    return build_parser().parse_args(["train", *arguments])


def test_options_default_to_the_dataclass() -> None:
    assert train_options(parse_train()) == TrainOptions()


def test_options_from_arguments() -> None:
    options = train_options(
        parse_train("--batch-size", "128", "--checkpoint-dir", "none", "--sleep-per-step", "0.5", "--bf16")
    )
    assert options == TrainOptions(batch_size=128, checkpoint_dir=None, sleep_per_step_s=0.5, bf16=True)


def test_records_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_METRICS", "/m.jsonl")
    monkeypatch.setenv("DDP_PLAY_RESULT", "")
    args = parse_train()
    assert (args.metrics, args.result) == (Path("/m.jsonl"), None)
    assert parse_train("--result", "r.json").result == Path("r.json")
