"""Jobs that root prepares and collects for the ranks of another user, and what such ranks may try."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play

pytestmark = [
    pytest.mark.dist,
    pytest.mark.runner,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root and a second user"),
]

UID = 65534
EVIL = """
id -u; id -G
echo weights > model.pt
ln -s {shadow} stolen.pt
ln {shadow} linked.pt 2>/dev/null || true
mkfifo fifo.pt
rm -f "$DDP_PLAY_METRICS"; ln -s {shadow} "$DDP_PLAY_METRICS"
mkfifo "$(dirname "$DDP_PLAY_METRICS")/result.json"
"""


def test_what_ranks_plant_is_not_collected_and_what_they_made_is(play: Play, tmp_path: Path) -> None:
    for path in (tmp_path, *tmp_path.parents[:2]):
        if path.stat().st_uid == 0 and path != Path("/tmp"):
            path.chmod(0o711)
    shadow = tmp_path / "shadow"
    shadow.write_text("root:secret-hash:1\n")
    shadow.chmod(0o600)
    play.write("code/train.sh", EVIL.format(shadow=shadow))
    job = {
        "source": "code",
        "command": ["sh", "train.sh"],
        "user": f"{UID}:{UID}",
        "artifacts": ["**"],
        "ranks_per_host": 1,
    }
    done = play("run", play.job({**job, "runtime": "process"}), "-i", LOCAL, "-e", "ddp_python=/usr/bin/python3")
    assert done.code == 0, done.err
    run = play.newest()
    printed = (run / "logs" / "rank-0.log").read_text().split()
    assert [int(word) for word in printed] == [UID, *os.getgrouplist(pwd.getpwuid(UID).pw_name, UID)]
    files = sorted(path.name for path in (run / "artifacts").rglob("*") if path.is_file())
    assert files == ["model.pt"]
    assert not any(b"secret-hash" in path.read_bytes() for path in run.rglob("*") if path.is_file())
    missing = {Path(row["path"]).name: row["why"] for row in play.document()["missing"]}
    assert missing["metrics.jsonl"] == "is a symbolic link, which is not followed"
    assert missing["result.json"] == "is a FIFO, not a regular file"
    assert shadow.read_text() == "root:secret-hash:1\n"
