"""Artifacts over the limit stay on their host: nothing removes them, and `attach` with a higher limit collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import LOCAL, Play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.runner]

# Rank 0 writes 1, 2 and 3 MiB, of which a limit of 2 MiB lets the first through.
COMMAND = "test $RANK = 0 || exit 0; for n in 1 2 3; do head -c ${n}M /dev/urandom > ckpt-$n.pt; done"
NAMES = ["ckpt-1.pt", "ckpt-2.pt", "ckpt-3.pt"]


def kept(play: Play) -> dict[str, bytes]:
    """The artifacts that the host still has."""
    return {path.name: path.read_bytes() for path in play.host_dir.glob("runs/large.*/*/src/ckpt-*.pt")}


def collected(bundle: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (bundle / "artifacts" / "localhost").iterdir()}


@pytest.fixture
def ended(play: Play) -> dict[str, Any]:
    """run.json of a run called large whose artifacts exceed the limit."""
    play.write("source/train.py", "")
    job = {"source": str(play.cwd / "source"), "artifacts": ["*.pt"], "command": ["sh", "-c", COMMAND]}
    done = play("run", play.job({**job, "artifacts_max_mib": 2, "ranks_per_host": 2}), "-i", LOCAL, "--name", "large")
    assert done.code == 0, done.err
    assert "not collected from localhost: ckpt-2.pt, ckpt-3.pt (exceeds" in done.err
    assert "ddp-play attach large --artifacts-max-mib 6 collects what exceeds the limit" in done.err
    return play.document(play.home / "runs" / "large")


def test_nothing_removes_them_and_a_higher_limit_collects_them(play: Play, ended: dict[str, Any]) -> None:
    """`gc` removed the only copy of them, and no command collected them."""
    bundle = play.home / "runs" / "large"
    assert ended["uncollected"] == [{"attempt": 1, "host": "localhost", "incomplete": True, "artifacts_max_mib": 6}]
    whole = kept(play)
    assert sorted(whole) == NAMES
    assert sorted(collected(bundle)) == NAMES[:1]

    swept = play("gc", "-i", LOCAL, "--yes")
    assert "ddp-play attach large --artifacts-max-mib 6 collects them" in swept.out, swept.out + swept.err
    assert "ddp-play attach large collects it, or says how" in play("rm", "large", "--yes", "--with-artifacts").out
    plain = play("attach", "large")
    assert plain.code == 0, plain.err
    assert "ddp-play attach large --artifacts-max-mib 6 collects what exceeds the limit" in plain.out + plain.err
    assert kept(play) == whole

    some = play("attach", "large", "--artifacts-max-mib", "4")
    assert "localhost: some files of attempt 1 are in the bundle" in some.err
    assert collected(bundle) == {name: whole[name] for name in NAMES[:2]}
    assert [row["path"] for row in play.document(bundle)["missing"]] == NAMES[2:]
    assert kept(play) == whole

    done = play("attach", "large", "--artifacts-max-mib", "6")
    assert done.code == 0, done.err
    assert "localhost: files of attempt 1 are in the bundle" in done.err
    after = play("results", "large", "--json").json
    assert (after["uncollected"], after["missing"], after["left_behind"]) == ([], [], {})
    assert (after["verdict"], after["ranks"]) == (ended["verdict"], ended["ranks"])
    assert collected(bundle) == whole
    assert sorted(row["path"] for row in after["artifacts"]) == NAMES
    assert not list(play.host_dir.glob("runs/*"))
    again = play("attach", "large", "--artifacts-max-mib", "6")
    assert "no host of the run has files that were not collected" in again.err
