"""ddp-play: from bare Linux hosts to a finished PyTorch DDP run."""

__version__ = "0.1.0"  # as in pyproject.toml: to read installed metadata takes a fifth of a verb's imports
VERSION_LINE = f"ddp-play {__version__}"  # what --version prints
