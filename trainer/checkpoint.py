"""Checkpoints on disk: one directory per step, complete or absent, with metadata that is readable without torch.

    checkpoints/step-00000046/weights.pt      model and optimizer
                              meta.json       progress and options of the training
                              manifest.json   sizes and sha256 of the other two

A directory is written under a temporary name and renamed when all its files are on disk. The manifest
distinguishes a complete checkpoint from a partial copy. Only rank 0 reads and writes these files, so the hosts
need no shared directory.
"""

import hashlib
import io
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.errors import TrainerError
from trainer.output_files import write_json
from trainer.world import World, broadcast_bytes

PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory: `state` holds the state dicts for torch, `meta` the content of meta.json."""

    state: dict[str, Any]
    meta: dict[str, Any]


def save(directory: Path, checkpoint: Checkpoint, *, step: int, keep: int) -> Path:
    """Write one checkpoint, delete all but the newest `keep`, and return its directory; OSError if the disk is full."""
    final = directory / f"{PREFIX}{step:08d}"
    temporary = directory / f".{final.name}.{os.getpid()}.tmp"
    for left_over in directory.glob(f".{PREFIX}*.tmp"):  # of a rank 0 that ended during a save; a pid can be reused
        shutil.rmtree(left_over)
    temporary.mkdir(parents=True)
    with (temporary / "weights.pt").open("wb") as stream:
        torch.save(checkpoint.state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    write_json(temporary / "meta.json", checkpoint.meta)
    entries = {name: _entry(temporary / name) for name in ("weights.pt", "meta.json")}
    write_json(temporary / "manifest.json", {"files": entries})
    if final.exists():  # the same step is saved again after a resume from an older checkpoint
        shutil.rmtree(final)
    temporary.rename(final)
    _sync_directory(directory)
    for old in _all(directory)[:-keep]:
        shutil.rmtree(old)
    return final


def newest(directory: Path) -> Path | None:
    """The complete checkpoint with the highest step; None if there is none."""
    complete = [path for path in _all(directory) if problem(path) is None]
    return complete[-1] if complete else None


def problem(path: Path) -> str | None:
    """Why this checkpoint is incomplete or damaged; None if its files match the manifest."""
    try:
        files = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["files"]
        damaged = [name for name, entry in files.items() if _entry(path / name) != entry]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"no readable manifest: {error}"
    return f"{' and '.join(damaged)} differs from the manifest" if damaged else None


def resume_from(choice: str, directory: Path | None) -> Path | None:
    """The checkpoint that `--resume auto|none|PATH` selects; None: start from the beginning. May raise TrainerError."""
    if choice not in {"auto", "none"}:
        reason = problem(Path(choice))
        if reason:
            raise TrainerError(f"--resume {choice}: not a complete checkpoint: {reason}")
        return Path(choice)
    found = newest(directory) if directory else None
    if found and choice == "none":
        # A new training in this directory would mix two trainings, and `auto` would later select the wrong checkpoint.
        raise TrainerError(
            f"{found} exists: --resume auto continues it, another --checkpoint-dir starts a new training"
        )
    return found


def load_on_all_ranks(choice: str, directory: Path | None, world: World) -> Checkpoint | None:
    """Rank 0 reads the checkpoint and broadcasts it, so that all ranks have the same one; None if there is none."""
    header, weights = _read_for_broadcast(choice, directory) if world.is_first else ({}, b"")
    header = json.loads(broadcast_bytes(world, json.dumps(header).encode()))
    if "error" in header:
        raise TrainerError(header["error"])
    if "meta" not in header:
        return None
    weights = broadcast_bytes(world, weights)
    state = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    return Checkpoint(state=state, meta=header["meta"])


def _read_for_broadcast(choice: str, directory: Path | None) -> tuple[dict[str, Any], bytes]:
    try:
        path = resume_from(choice, directory)
        if path is None:
            return {}, b""
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        return {"meta": meta}, (path / "weights.pt").read_bytes()
    except (TrainerError, OSError) as error:  # the other ranks wait for a broadcast in either case
        return {"error": str(error)}, b""


def _all(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"{PREFIX}*") if path.is_dir())


def _entry(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
