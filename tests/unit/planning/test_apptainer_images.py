"""Names of images: whose they are, and what is wrong with one that Apptainer cannot take."""

from __future__ import annotations

import pytest

from ddp_play.planning.apptainer_images import for_apptainer, is_apptainers, is_pulled, problem


@pytest.mark.parametrize(
    ("image", "apptainers", "pulled"),
    [
        ("/shared/train.sif", True, False),
        ("/shared/root", True, False),
        ("docker://team/train:2", True, True),
        ("oras://site:5000/train:2", True, True),
        ("library://train", True, False),
        ("images/train.sif", True, False),
        ("./train", True, False),
        ("train.sqsh", True, False),
        ("team/train.sif:2", False, False),
        ("team/train:2", False, False),
        ("site:5000/team/train", False, False),
        ("train@sha256:0123", False, False),
    ],
)
def test_the_form_says_whose_image_it_is(image: str, apptainers: bool, pulled: bool) -> None:
    assert (is_apptainers(image), is_pulled(image)) == (apptainers, pulled)
    assert for_apptainer(image) == (image if apptainers else f"docker://{image}")


@pytest.mark.parametrize(
    ("image", "pull", "words"),
    [
        ("/shared/a b:c.sif", "missing", ""),
        ("/shared/train.sif", "never", ""),
        ("docker://team/train:2", "always", ""),
        ("oras://site/train", "missing", ""),
        ("docker://team/train:2", "never", "apptainer pull FILE.sif docker://team/train:2 makes a file"),
        ("docker://", "missing", "names nothing after docker://"),
        ("docker:///shared/train.sif", "missing", "names nothing after docker://"),
        ("library://train", "missing", "has the scheme library, which is not supported"),
        ("train.sif", "missing", "train.sif is no absolute path"),
        ("./images/train", "missing", "is no absolute path"),
        ("images/train.sqsh", "missing", "is no absolute path"),
        ("team/train:2", "missing", "write docker://team/train:2"),
        ("/shared/\ntrain.sif", "missing", "holds a control character"),
    ],
)
def test_what_apptainer_cannot_take(image: str, pull: str, words: str) -> None:
    found = problem(image, pull)
    assert words in found if words else found == ""
