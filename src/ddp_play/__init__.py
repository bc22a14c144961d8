"""ddp-play: from bare Linux hosts to a finished PyTorch DDP run."""
