"""Tags, base images, options and requirements of rank images."""

from __future__ import annotations

import pytest

from ddp_play.errors import UsageError
from ddp_play.images.recipe import (
    CPU_TAG,
    DEFAULT_TAG,
    SLIM_TAG,
    Device,
    ImageRequest,
    Kind,
    build_words,
    check_request,
    parse_extra,
    request_of,
    torch_requirements,
)


def test_tags() -> None:
    assert ImageRequest().result_tag == DEFAULT_TAG
    assert ImageRequest(slim=True).result_tag == SLIM_TAG
    assert ImageRequest(device=Device.CPU).result_tag == CPU_TAG
    assert ImageRequest(tag="team/train:2").result_tag == "team/train:2"


@pytest.mark.parametrize(
    ("request_", "wheels", "on_debian"),
    [
        (ImageRequest(), False, False),
        (ImageRequest(device=Device.CUDA), False, False),
        (ImageRequest(device=Device.CPU), True, True),
        (ImageRequest(offline=True, device=Device.CUDA), True, True),
        (ImageRequest(offline=True), True, True),
        (ImageRequest(offline=True, slim=True), False, True),
    ],
)
def test_wheels_are_needed_for_a_base_without_torch(request_: ImageRequest, wheels: bool, on_debian: bool) -> None:
    assert (request_.needs_wheels, request_.on_debian) == (wheels, on_debian)


def test_torch_for_the_same_python_has_the_controllers_versions() -> None:
    assert torch_requirements(torch="2.13.0", numpy="2.4.6", same_python=True) == ("torch==2.13.0", "numpy==2.4.6")
    assert torch_requirements(torch="2.13.0", numpy="2.4.6", same_python=False) == ("torch==2.13.0", "numpy")
    assert torch_requirements(torch="2.13.0", numpy="", same_python=True) == ("torch==2.13.0", "numpy")


@pytest.mark.parametrize(
    ("values", "files", "expected"),
    [
        ([], [], ()),
        (["mpi4py"], [], ("mpi4py",)),
        (["mpi4py >= 4", "pandas[parquet]==2.3"], [], ("mpi4py>=4", "pandas[parquet]==2.3")),
        (["-r"], ["requirements.txt"], ("-r", "requirements.txt")),
        (["-r", "tqdm", "-r"], ["a.txt", "b.txt"], ("-r", "a.txt", "tqdm", "-r", "b.txt")),
        (["-r requirements.txt"], [], ("-r", "requirements.txt")),
    ],
)
def test_values_of_with(values: list[str], files: list[str], expected: tuple[str, ...]) -> None:
    assert parse_extra(values, files) == expected


@pytest.mark.parametrize(
    ("values", "files", "words"),
    [
        (["mpi4py =="], [], "--with 'mpi4py ==' is not a requirement of pip"),
        (["--index-url=x"], [], "is not a requirement"),
        (["-r"], [], "the name of a requirements file is missing"),
        (["tqdm"], ["mpi4py"], "unexpected argument mpi4py"),
    ],
)
def test_wrong_values_of_with_are_refused(values: list[str], files: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_extra(values, files)


@pytest.mark.parametrize(
    "request_",
    [
        ImageRequest(base="x", slim=True),
        ImageRequest(base="x", offline=True),
        ImageRequest(base="x", device=Device.CPU),
        ImageRequest(slim=True, device=Device.CUDA),
        ImageRequest(torch="2.13.0"),
        ImageRequest(wheelhouse="/w"),
    ],
)
def test_options_that_contradict_each_other_are_refused(request_: ImageRequest) -> None:
    with pytest.raises(UsageError):
        check_request(request_)


@pytest.mark.parametrize(
    "request_",
    [
        ImageRequest(),
        ImageRequest(base="x", extra=("tqdm",), wheelhouse="/w"),
        ImageRequest(offline=True, torch="2.13.0", device=Device.CUDA),
    ],
)
def test_options_that_fit(request_: ImageRequest) -> None:
    check_request(request_)


@pytest.mark.parametrize(
    ("kind", "tag", "words"),
    [
        (Kind.CPU, CPU_TAG, "image build --cpu"),
        (Kind.CUDA, DEFAULT_TAG, "image build --cuda"),
        (Kind.SLIM, SLIM_TAG, "image build --slim"),
        (Kind.CUDA, "train:1", "image build --cuda --tag train:1"),
    ],
)
def test_kinds_of_images_and_the_commands_that_build_them(kind: Kind, tag: str, words: str) -> None:
    assert " ".join(build_words(kind, tag)) == words
    assert request_of(kind, tag).result_tag == tag
    check_request(request_of(kind, tag))
