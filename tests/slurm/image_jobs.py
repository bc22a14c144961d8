"""What ranks in an image do on Slurm: tell where they are, and add numbers with each other."""

from __future__ import annotations

from tests.apptainer_image import NAME

WHERE = 'grep -q "' + NAME + '" /etc/os-release && echo rank $RANK of $WORLD_SIZE in the image; '
SUM = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("sum", int(value), flush=True)
dist.destroy_process_group()
"""
