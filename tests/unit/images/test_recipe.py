"""Tags, base images and wheels of rank images."""

from __future__ import annotations

import pytest

from ddp_play.images.recipe import DEFAULT_TAG, SLIM_TAG, ImageRequest, pip_download_argv, requirements


def test_tags() -> None:
    assert ImageRequest().result_tag == DEFAULT_TAG
    assert ImageRequest(slim=True).result_tag == SLIM_TAG
    assert ImageRequest(tag="team/train:2").result_tag == "team/train:2"


@pytest.mark.parametrize(
    ("request_", "wheels"),
    [(ImageRequest(), False), (ImageRequest(offline=True), True), (ImageRequest(offline=True, slim=True), False)],
)
def test_wheels_are_needed_for_a_base_without_torch(request_: ImageRequest, wheels: bool) -> None:
    assert request_.needs_wheels is wheels


def test_wheels_for_the_same_python_are_the_controllers_versions() -> None:
    assert requirements(torch="2.13.0", numpy="2.4.6", same_python=True) == ["pip", "torch==2.13.0", "numpy==2.4.6"]
    assert pip_download_argv("py", ["x"], "d", version="3.11", same_python=True)[-3:] == ["--dest", "d", "x"]


def test_wheels_for_another_python_are_requested_by_version() -> None:
    assert requirements(torch="2.13.0", numpy="2.4.6", same_python=False) == ["pip", "torch==2.13.0", "numpy"]
    argv = pip_download_argv("py", ["x"], "d", version="3.13", same_python=False)
    assert argv[argv.index("--python-version") + 1] == "3.13"
    assert "--only-binary=:all:" in argv
