"""A small convolutional classifier for 8x8 or 28x28 grey images."""

import hashlib

import torch
from torch import Tensor, nn


class DigitNet(nn.Module):
    """Two convolutions, one pooling, two linear layers.

    No BatchNorm: its statistics come from the local batch, so the result would depend on the number of ranks.
    """

    def __init__(self, side: int, dropout: float = 0.0) -> None:
        super().__init__()
        pooled = side // 2
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * pooled * pooled, 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Images [N, 1, side, side] -> logits [N, 10]."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


def build_model(side: int, *, seed: int, dropout: float, dtype: torch.dtype) -> DigitNet:
    """Same seed, same initial weights on every rank and in either dtype."""
    torch.manual_seed(seed)
    return DigitNet(side, dropout).to(dtype)


def parameters_sha256(model: nn.Module) -> str:
    """Equal on two ranks exactly when all their parameters are equal bit for bit."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
