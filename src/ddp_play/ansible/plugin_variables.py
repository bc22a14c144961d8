"""The DDP_PLAY_* variables by which the command speaks to its action plugins, through ansible-playbook."""

from __future__ import annotations

RUN_DIR_ENV = "DDP_PLAY_RUN_DIR"
FACTS_ENV = "DDP_PLAY_FACTS"
USE_CACHED_ENV = "DDP_PLAY_CACHED"
WAIT_ENV = "DDP_PLAY_WAIT"
