"""Bundles whose texts try to become part of the page, or of the terminal, that shows them."""

from __future__ import annotations

import json
from typing import Any

from ddp_play.bundle.paths import RunPaths, write_json

from .bundles import CREATED, ended_bundle, rank_row, sample_row, write_rows

BAD = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' \x1b[31m\x1b]0;t\x07\u202eabc\ud800\x00"
MARKS = ("\x1b", "\u202e", "\x00", "\ud800", "\x07")


def hostile_bundle() -> RunPaths:
    """Every text that a host, a rank or a user can choose is BAD; binary and endless logs."""
    ranks = [rank_row(0, "h1", detail=BAD, exit_code=3, kernel=[BAD]), rank_row(1, "h2", state=BAD, log_complete=False)]
    texts = dict.fromkeys(("kind", "host", "hint", "last_frame", "error"), BAD)
    verdict = {**texts, "message": f"{BAD}\n{BAD}", "rank": 0, "tail": [BAD], "kernel": [BAD]}
    missing = [{"host": BAD, "path": BAD, "why": BAD}]
    network = {"fabric": BAD, "hosts": {BAD: {"planned": BAD, "carried": {BAD: {"rx": 9, "tx": 9}}}}}
    paths = ended_bundle(
        status="failed", ranks=ranks, verdict=verdict, missing=missing, left_behind={BAD: [BAD]}, network=network,
        argv=["ddp-play", BAD], job=BAD, owner=BAD, controller=BAD, versions={BAD: BAD},
        host_versions={BAD: {BAD: BAD}, "h2": {BAD: [BAD, {BAD: BAD}]}}, nccl={"words": BAD},
        source={"path": BAD, "files": 1, "sha256": BAD},
    )  # fmt: skip
    write_rows(paths.events, [_event(kind) for kind in ("warning", "rank", "host", "restart", "task", BAD)])
    rows = [{"time": CREATED + at, BAD: 1.0, "loss": float("nan"), "big": 10**400, "text": BAD} for at in (3, 4)]
    write_rows(paths.metrics(0), rows)
    paths.metrics(1).write_bytes(b"\xff\xfe{\n" + b"[" * 100_000)
    write_rows(paths.samples("h1"), [{"format": 1, "host": BAD, "gpus": {BAD: BAD}}, sample_row(9, 2, 0, [0])])
    rows_of_h2 = [{"t": CREATED + 9, "s": 2, "attempt": 1, "cpu": 1e300, "memory": -1, "ranks": {"1": {"cpu": 1e300}}}]
    write_rows(paths.samples("h2"), [{"format": 1, "host": BAD, "cores": -3}, *rows_of_h2])
    paths.log(0).write_bytes(BAD.encode("utf-8", "surrogatepass") + b"\xff\xfe\r\n" + b"x" * 10_000_000)
    paths.log(1).write_bytes(BAD.encode("utf-8", "surrogatepass"))
    paths.env(0).write_bytes(f"# {BAD}\nNAME{BAD}={BAD}\n".encode("utf-8", "surrogatepass"))
    write_json(paths.result(0), {"accuracy": 0.5, "torch": BAD})
    paths.artifacts_manifest.write_text(json.dumps([{"host": BAD, "path": BAD, "size": "x"}]))
    paths.evidence(0, "stack").parent.mkdir()
    paths.evidence(0, "stack").write_bytes(BAD.encode("utf-8", "surrogatepass"))
    write_json(paths.job, {"command": [BAD], "env": {BAD: BAD}})
    return paths


def _event(kind: str) -> dict[str, Any]:
    return {"time": CREATED + 3, "type": kind, "message": BAD, "rank": 0, "host": "h1", "state": BAD, "why": BAD,
            "how": BAD, "reason": BAD, "attempt": 1, "retired": {BAD: BAD}, "new": [BAD], "name": BAD,
            "status": BAD}  # fmt: skip
