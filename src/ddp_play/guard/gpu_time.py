"""How long the GPUs of an attempt's slots were busy, from the samples that the sampler writes on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

from .sample_following import FollowedSamples
from .sample_thinning import COVERED

if TYPE_CHECKING:
    from pathlib import Path

# Fields of a row of usage: GPU seconds that samples cover, and how many of these the GPUs were busy.
SAMPLED, BUSY = "gpu_s", "gpu_busy_s"
PERCENT = 100.0
# Ranks of the same user may write to the file too: a row covers at most this, and this many pieces are read at once.
MAX_ROW_S, MAX_PIECES = 3600, 16


class GpuTime:
    """Sums since `clear`. Each row of samples counts once; a GPU that tells no utilization (MIG) does not count."""

    def __init__(self, samples: Path, gpus: List[int], after_s: float) -> None:
        """`gpus`: by NVML's number; `after_s`: uptime of the host from which on samples count."""
        self._gpus = [str(number) for number in gpus]
        self._samples = FollowedSamples(samples, after_s)
        self.clear()

    def clear(self) -> None:
        """What was summed is recorded."""
        self._sampled_s = self._busy_s = 0.0

    def read(self) -> Dict[str, float]:
        """SAMPLED and BUSY with the newest samples; empty without any of these GPUs."""
        for _ in range(MAX_PIECES if self._gpus else 0):
            for row in self._samples.take_rows():
                self._add(row)
            if not self._samples.is_behind:
                break
        found = {SAMPLED: round(self._sampled_s, 3), BUSY: round(self._busy_s, 3)}
        return found if self._sampled_s else {}

    def _add(self, row: Dict[str, Any]) -> None:
        read, seconds = row.get("gpus"), row[COVERED]
        if not (isinstance(read, dict) and 0 < seconds <= MAX_ROW_S):
            return
        for gpu in self._gpus:
            percent = read[gpu].get("utilization") if isinstance(read.get(gpu), dict) else None
            if isinstance(percent, (int, float)) and 0 <= percent <= PERCENT:
                self._sampled_s += seconds
                self._busy_s += seconds * percent / PERCENT
