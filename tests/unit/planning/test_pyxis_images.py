"""Names of images: what pyxis is given for one of Docker's, and what it cannot take."""

from __future__ import annotations

import pytest

from ddp_play.planning.pyxis_images import for_pyxis, is_imported, problem


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("/shared/train.sqsh", "/shared/train.sqsh"),
        ("train:2", "train:2"),
        ("team/train:2", "team/train:2"),
        ("docker://team/train", "team/train"),
        ("site.example/team/train:2", "site.example#team/train:2"),
        ("site:5000/train@sha256:0123", "site:5000#train@sha256:0123"),
        ("localhost/train", "localhost#train"),
        ("docker://site.example/a/b", "site.example#a/b"),
        ("docker.io/library/debian:12", "library/debian:12"),
        ("site.example#team/train:2", "site.example#team/train:2"),
        ("docker://kim@site.example#train", "kim@site.example#train"),
    ],
)
def test_the_registry_is_followed_by_a_hash(image: str, expected: str) -> None:
    assert for_pyxis(image) == expected
    assert is_imported(image) is not image.startswith("/")


@pytest.mark.parametrize(
    ("image", "pull", "words"),
    [
        ("/shared/train.sqsh", "never", ""),
        ("/shared/a b:c", "missing", ""),
        ("team/train:2", "missing", ""),
        ("docker://site:5000/train", "always", ""),
        ("site:5000/train", "never", "enroot import -o FILE.sqsh docker://site:5000#train makes a file"),
        ("train.sqsh", "missing", "train.sqsh is no absolute path"),
        ("./train", "missing", "is no absolute path"),
        ("oras://site/train", "missing", "has the scheme oras, which is not supported"),
        ("dockerd://train", "missing", "has the scheme dockerd"),
        ("docker://", "missing", "names nothing after docker://"),
        ("docker:///shared/train.sqsh", "missing", "names nothing after docker://"),
        ("/shared/\ntrain.sqsh", "missing", "holds a control character"),
    ],
)
def test_what_pyxis_cannot_take(image: str, pull: str, words: str) -> None:
    found = problem(image, pull)
    assert words in found if words else found == ""
