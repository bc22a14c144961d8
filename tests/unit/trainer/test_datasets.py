"""The digits are complete; damaged MNIST files are named."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.trainer.test_idx import idx
from trainer.datasets import load, load_digits
from trainer.errors import TrainerError

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """A tiny set in the format of MNIST: 6 training and 3 test images."""
    for part, count in (("train", 6), ("t10k", 3)):
        pixels = np.arange(count * 784, dtype=np.uint32) % 251
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx((count, 28, 28), pixels.astype(np.uint8).tobytes()))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx((count,), bytes(range(count)))))
    return tmp_path


def test_digits_are_whole() -> None:
    data = load_digits(torch.float64)
    images, labels = data.train.tensors
    assert images.shape == (1437, 1, 8, 8)
    assert images.dtype == torch.float64
    assert data.test.tensors[0].shape == (360, 1, 8, 8)
    assert abs(float(images.mean())) < 0.01
    assert abs(float(images.std()) - 1) < 0.01
    all_labels = torch.cat([labels, data.test.tensors[1]])  # the counts UCI documents for its test part
    assert torch.bincount(all_labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.fingerprint == load("digits", None, torch.float64).fingerprint
    assert data.fingerprint != load_digits(torch.float32).fingerprint


def test_mnist_plain_and_gzipped(mnist: Path) -> None:
    data = load("mnist", mnist, torch.float32)
    images, labels = data.train.tensors
    assert images.shape == (6, 1, 28, 28)
    assert labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert images[0, 0, 0, 0] == pytest.approx(-0.1307 / 0.3081)
    assert images[0, 0, 0, 1] == pytest.approx((1 / 255 - 0.1307) / 0.3081)
    assert data.test.tensors[0].shape == (3, 1, 28, 28)


def test_mnist_with_dots_in_the_names(mnist: Path) -> None:
    (mnist / IMAGES).rename(mnist / "train-images.idx3-ubyte")
    assert load("mnist", mnist, torch.float32).side == 28


def remove_labels(directory: Path) -> None:
    (directory / f"{LABELS}.gz").unlink()


def cut_images(directory: Path) -> None:
    path = directory / IMAGES
    path.write_bytes(path.read_bytes()[:-10])


def cut_gzip(directory: Path) -> None:
    path = directory / f"{LABELS}.gz"
    path.write_bytes(path.read_bytes()[:-6])


def not_gzip(directory: Path) -> None:
    (directory / f"{LABELS}.gz").write_bytes(b"<html>not found</html>")


def html_images(directory: Path) -> None:
    (directory / IMAGES).write_bytes(b"<html>404 not found</html>")


def swapped(directory: Path) -> None:
    (directory / IMAGES).write_bytes(idx((6,), bytes(6)))


def fewer_labels(directory: Path) -> None:
    (directory / f"{LABELS}.gz").write_bytes(gzip.compress(idx((5,), bytes(5))))


def wrong_label(directory: Path) -> None:
    (directory / f"{LABELS}.gz").write_bytes(gzip.compress(idx((6,), b"\0\1\2\3\4\x0a")))


def wrong_size(directory: Path) -> None:
    (directory / IMAGES).write_bytes(idx((6, 27, 28), bytes(6 * 27 * 28)))


def tiny(directory: Path) -> None:
    (directory / IMAGES).write_bytes(b"\0\0")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_labels, f"has no {LABELS} (looked for {LABELS}, {LABELS}.gz, train-labels.idx1-ubyte"),
        (cut_images, "4710 bytes, its header says 4720: cut off or damaged"),
        (cut_gzip, "cannot be read"),
        (not_gzip, "cannot be read"),
        (html_images, "not an IDX file of 3-dimensional bytes: it starts with 3c68746d"),
        (swapped, "are too few for an IDX file"),
        (fewer_labels, "has 6 images, but"),
        (wrong_label, "label 10 is not a digit"),
        (wrong_size, "images are 27x28, expected 28x28"),
        (tiny, "2 bytes are too few"),
    ],
)
def test_mnist_damaged(mnist: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(mnist)
    with pytest.raises(TrainerError) as caught:
        load("mnist", mnist, torch.float32)
    assert message in str(caught.value)
    assert str(mnist) in str(caught.value)
