"""Explicit stores."""

from datetime import timedelta
from pathlib import Path

import pytest

from trainer.errors import TrainerError
from trainer.store import build_store, store_url


@pytest.mark.parametrize(
    ("env", "scheme", "where"),
    [
        ({"DDP_PLAY_STORE": "tcp://h:29500"}, "tcp", "h:29500"),
        ({"DDP_PLAY_STORE": "tcp://[::1]:29500"}, "tcp", "[::1]:29500"),
        ({"DDP_PLAY_STORE": "file:///shared/run/store"}, "file", ""),
        ({"MASTER_ADDR": "h", "MASTER_PORT": "1"}, "tcp", "h:1"),
    ],
)
def test_store_url(env: dict[str, str], scheme: str, where: str) -> None:
    url = store_url(env)
    assert (url.scheme, url.netloc) == (scheme, where)


@pytest.mark.parametrize("text", ["", "tcp://h", "tcp://h:x", "tcp://:1", "http://h:1", "file://"])
def test_store_url_refuses(text: str) -> None:
    with pytest.raises(TrainerError, match="neither tcp://HOST:PORT nor file:///PATH"):
        store_url({"DDP_PLAY_STORE": text})


def test_file_store_keeps_what_was_set(tmp_path: Path) -> None:
    store = build_store(0, 1, timedelta(seconds=5), {"DDP_PLAY_STORE": f"file://{tmp_path}/s"})
    store.set("key", "value")
    assert store.get("key") == b"value"
