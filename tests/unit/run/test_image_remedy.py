"""A remedy that copies an image from this machine, where it is, where it is not, and where nobody can tell."""

from __future__ import annotations

import pytest
from docker.errors import APIError, ImageNotFound
from requests.exceptions import RequestException

from ddp_play.lab import docker_client
from ddp_play.run import image_remedy
from ddp_play.run.image_remedy import is_here, judged

HINT = "correct ddp_job_image, or copy the image from here: ddp-play image load -i inv --limit h1 --image team/train:2"
FIRST = (
    "this machine has no team/train:2 either: add --build cpu, cuda or slim to image load, or docker pull team/train:2"
)


class Engine:
    """An engine with these images, or with an error for every question."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self.names, self.error = names, error
        self.images = self
        self.is_closed = False

    def get(self, name: str) -> object:
        if self.error:
            raise self.error
        if name not in self.names:
            raise ImageNotFound("no such image")
        return object()

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("engine", "here"),
    [
        (Engine("team/train:2"), True),
        (Engine("other"), False),
        (Engine(error=APIError("the daemon stops")), None),
        (Engine(error=RequestException("timed out")), None),
    ],
)
def test_what_the_engine_says(engine: Engine, here: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_client, "connect", lambda timeout_s: engine)
    assert is_here("team/train:2") is here
    assert engine.is_closed


def test_without_an_engine_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    assert is_here("team/train:2") is None
    assert judged(HINT) == HINT


@pytest.mark.parametrize(
    ("hint", "here", "more"),
    [
        (HINT, True, ""),
        (HINT, None, ""),
        (HINT, False, f"; {FIRST}"),
        (
            "ddp-play image load -i inv --image team/train:2, or name the image by its digest",
            False,
            f"; {FIRST}",
        ),
        ("mount it", False, ""),
        ("", False, ""),
    ],
)
def test_an_image_that_this_machine_lacks_too_comes_first(
    hint: str, here: bool | None, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy was to copy an image that was nowhere."""
    monkeypatch.setattr(image_remedy, "is_here", lambda image: here)
    assert judged(hint) == hint + more
    assert judged(judged(hint)) == hint + more
