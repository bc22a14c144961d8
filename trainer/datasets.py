"""Data sets as tensors: the 8x8 digits in this package, or MNIST from the user's IDX files."""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from trainer.errors import TrainerError
from trainer.idx import read_idx

DIGITS = Path(__file__).parent / "data" / "digits.csv.gz"
DIGITS_MEAN, DIGITS_STD = 0.305, 0.376  # of the images in digits.csv.gz, scaled to 0..1
MNIST_MEAN, MNIST_STD = 0.1307, 0.3081  # of the 60 000 training images, scaled to 0..1

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Data:
    """Training and test images [N, 1, side, side] with their labels [N]."""

    name: str
    side: int
    train: TensorDataset
    test: TensorDataset

    @property
    def fingerprint(self) -> int:
        """CRC-32 over images and labels: equal on two hosts if their data is equal."""
        value = 0
        for tensor in (*self.train.tensors, *self.test.tensors):
            value = zlib.crc32(tensor.contiguous().numpy().tobytes(), value)
        return value


def load(name: str, directory: Path | None, dtype: torch.dtype) -> Data:
    """Load `digits` or `mnist` with images of type `dtype`; TrainerError if files are missing or damaged."""
    if name == "digits":
        return load_digits(dtype)
    if name == "mnist":
        return load_mnist(directory, dtype)
    raise TrainerError(f"unknown data set {name!r}: digits or mnist")


def load_digits(dtype: torch.dtype, path: Path = DIGITS) -> Data:
    """The digits: 1437 training images and 360 test images (every fifth one), each 8x8."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    images = torch.from_numpy(table[:, :64].reshape(-1, 1, 8, 8)).to(dtype) / 16
    images = (images - DIGITS_MEAN) / DIGITS_STD
    labels = torch.from_numpy(table[:, 64].astype(np.int64))
    is_test = torch.arange(len(labels)) % 5 == 0
    return Data(
        name="digits",
        side=8,
        train=TensorDataset(images[~is_test], labels[~is_test]),
        test=TensorDataset(images[is_test], labels[is_test]),
    )


def load_mnist(directory: Path | None, dtype: torch.dtype) -> Data:
    """MNIST, or a data set in its format, from four IDX files, gzipped or not; TrainerError says which is wrong."""
    if directory is None:
        raise TrainerError(
            "--data mnist needs --data-dir, the directory of train-images-idx3-ubyte[.gz] and the other three files"
        )
    return Data(
        name="mnist",
        side=28,
        train=_mnist_part(directory, "train", dtype),
        test=_mnist_part(directory, "t10k", dtype),
    )


def _mnist_part(directory: Path, part: str, dtype: torch.dtype) -> TensorDataset:
    images_path = _existing(directory, f"{part}-images-idx3-ubyte")
    labels_path = _existing(directory, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(images_path, num_dims=3), read_idx(labels_path, num_dims=1)
    if images.shape[1:] != (28, 28):
        raise TrainerError(f"{images_path}: images are {images.shape[1]}x{images.shape[2]}, expected 28x28")
    if len(images) != len(labels):
        raise TrainerError(f"{images_path} has {len(images)} images, but {labels_path} {len(labels)} labels")
    if len(labels) == 0:
        raise TrainerError(f"{labels_path} holds no samples")
    if labels.max() > 9:
        raise TrainerError(f"{labels_path}: label {labels.max()} is not a digit")
    return TensorDataset(_normalised(images, dtype), torch.from_numpy(labels.astype(np.int64)))


def _normalised(images: Bytes, dtype: torch.dtype) -> Tensor:
    return (torch.from_numpy(images).unsqueeze(1).to(dtype) / 255 - MNIST_MEAN) / MNIST_STD


def _existing(directory: Path, stem: str) -> Path:
    # mirrors use a dash or a dot: train-images-idx3-ubyte, train-images.idx3-ubyte
    names = [name + suffix for name in (stem, stem.replace("-idx", ".idx")) for suffix in ("", ".gz")]
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise TrainerError(f"{directory} has no {stem} (looked for {', '.join(names)})")
