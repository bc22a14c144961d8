"""What one H100 80GB HBM3 without NVLink answered, in h100/ (driver 580.159.04, a virtual machine); ids are made up.

`smi-query.xml`: nvidia-smi -q -x. `gpus.csv`, `states.csv`, `remapped-rows.csv`, `users.csv`: the queries of
`guard/gpus.py` and `guard/gpu_states.py`. `help-query-gpu.txt`: the names that nvidia-smi --help-query-gpu lists.
`unknown-field.txt`: a query with the field `no.such.field`, exit code 2. `driver-version.txt`: the file in procfs.
`nccl-one-rank.log`: NCCL 2.28.9 of a job of one rank, without the lines of most channels and of trees.
"""

from pathlib import Path

DIRECTORY = Path(__file__).parent / "h100"
GPU = "GPU-11112222-3333-4444-5555-666677778888"


def answer(name: str) -> str:
    """The text of one of them."""
    return (DIRECTORY / name).read_text(encoding="utf-8")
