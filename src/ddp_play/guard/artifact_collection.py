"""Files to collect: what ranks wrote for ddp-play, and artifacts in the working directory."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .protocol import MAX_PAYLOAD
from .run_directory import HostRun, read_json

Send = Callable[..., None]
RANK_FILES = ("metrics.jsonl", "result.json", "error.json")


def matches(relative: str, patterns: List[str]) -> bool:
    """Whether a path relative to the working directory matches a glob; `**` crosses directories."""
    return any(
        pattern in ("**", "**/*")
        or fnmatch.fnmatch(relative, pattern)
        or (pattern.startswith("**/") and fnmatch.fnmatch(relative, pattern[3:]))
        or fnmatch.fnmatch(relative, pattern.rstrip("/") + "/*")
        for pattern in patterns
    )


def new_files(
    source: Path, manifest: Dict[str, List[float]], unreadable: Optional[Callable[[OSError], None]] = None
) -> Iterator[Tuple[str, Path, os.stat_result]]:
    """Files in the working directory that are not in the snapshot, or differ from it in size or mtime.

    `unreadable` is called for each directory that cannot be listed.
    """
    for where, directories, names in os.walk(str(source), onerror=unreadable):
        directories[:] = sorted(d for d in directories if d != "__pycache__")
        for name in sorted(names):
            path = Path(where) / name
            relative = str(path.relative_to(source))
            if path.is_symlink() or not path.is_file():
                continue
            stat = path.stat()
            known = manifest.get(relative)
            if known is None or known[0] != stat.st_size or abs(known[1] - stat.st_mtime) > 1.0:
                yield relative, path, stat


def fetch(place: HostRun, order: Dict[str, Any], send: Send) -> Dict[str, Any]:
    """Send all requested files; return the manifest of artifacts, and which files were not sent and why.

    `order["source"]` is the working directory of an attempt whose own files are already removed.
    """
    spec = read_json(place.spec) or {}
    missing: List[Dict[str, str]] = []
    for rank in spec.get("ranks", []):
        directory = place.rank_dir(int(rank["rank"]))
        for name in RANK_FILES:
            if (directory / name).is_file():
                _send_file(directory / name, {"file": name, "rank": rank["rank"]}, send, missing)
        for path in sorted(directory.glob("flight-recorder-*")):  # torch appends the rank
            _send_file(path, {"file": "flight-recorder", "rank": rank["rank"]}, send, missing)
    if spec.get("agent") and place.agent_log.is_file():
        _send_file(place.agent_log, {"file": "torchrun.log"}, send, missing)
    source = order.get("source") or spec.get("source") or {}
    manifest: List[Dict[str, Any]] = []
    if source.get("collect"):
        manifest = _send_artifacts(Path(source["path"]), source, order, send, missing)
    return {"missing": missing, "artifacts": manifest}


def _send_artifacts(
    root: Path, source: Dict[str, Any], order: Dict[str, Any], send: Send, missing: List[Dict[str, str]]
) -> List[Dict[str, Any]]:
    budget = int(order["max_bytes"])
    manifest: List[Dict[str, Any]] = []

    def unreadable(error: OSError) -> None:
        gone_since = isinstance(error, FileNotFoundError) and str(error.filename) != str(root)
        if order["patterns"] and not gone_since:
            missing.append({"path": str(error.filename), "why": error.strerror or str(error)})

    for relative, path, stat in new_files(root, source.get("manifest") or {}, unreadable):
        if not matches(relative, list(order["patterns"])):
            continue
        if stat.st_size > budget:
            missing.append({"path": relative, "why": "larger than what is left of ddp_job_artifacts_max_mib"})
            continue
        budget -= stat.st_size
        digest = _send_file(path, {"file": "artifact", "path": relative}, send, missing)
        if digest:
            manifest.append({"path": relative, "size": stat.st_size, "sha256": digest})
    return manifest


def _send_file(path: Path, what: Dict[str, Any], send: Send, missing: List[Dict[str, str]]) -> str:
    digest = hashlib.sha256()
    try:
        with open(str(path), "rb") as handle:
            while True:
                chunk = handle.read(MAX_PAYLOAD)
                digest.update(chunk)
                send("file", chunk, last=not chunk, **what)
                if not chunk:
                    return digest.hexdigest()
    except OSError as error:
        missing.append({"path": str(path), "why": error.strerror or str(error)})
        return ""
