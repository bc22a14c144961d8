"""Bad arguments end with one line."""

import pytest

from trainer.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epochs", "0"), "--epochs must be 1 or more, not 0"),
        (("--batch-size", "-4"), "--batch-size must be 1 or more, not -4"),
        (("--max-steps", "-1"), "--max-steps must be 0 or more, not -1"),
        (("--lr", "0"), "--lr must be above 0"),
        (("--dropout", "1"), "--dropout must be at least 0 and below 1"),
        (("--bf16", "--dtype", "float64"), "--bf16 needs --dtype float32"),
        (("--sync", "manual", "--uneven"), "--comm-hook and --uneven need --sync ddp"),
        (("--uneven", "--max-steps", "3"), "--uneven takes no --max-steps"),
        (("--checkpoint-dir", "none", "--resume", "x"), "--resume PATH needs a --checkpoint-dir"),
        (("--data", "mnist"), "--data mnist needs --data-dir"),
    ],
)
def test_main_refuses_with_one_line(
    arguments: tuple[str, ...],
    message: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    assert main(["train", *arguments]) == 2
    assert capfd.readouterr().err.startswith(f"trainer: {message}")
