"""`make mutants` covers every module that signals, removes or locks, with tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutant
from tests.mutants.targets import Equivalent, Target, targets

ROOT = Path(__file__).resolve().parents[2]
WHERE = ("src/ddp_play/guard", "src/ddp_play/run")
# Calls that signal a process, remove a file or take a lock.
ACTS = {"kill", "killpg", "signal_exactly", "kill_descendants", "unlink", "rmdir", "rmtree", "flock", "send_signal"}
# Modules with such a call about a file, a process or a lock that only they know.
OWN_THINGS_ONLY = {
    "src/ddp_play/run/interrupted_attempt.py": "the archive of the source, which no attempt needs any more",
    "src/ddp_play/run/next_allocation.py": "the lock of its own process",
    "src/ddp_play/guard/dcgm_diagnostic.py": "the program that it has started",
    "src/ddp_play/guard/flight_recorder_analysis.py": "the process that reads the dumps",
    "src/ddp_play/guard/container_creation.py": "the configuration of one pull",
    "src/ddp_play/guard/container_orders.py": "the empty directory that it has made",
    "src/ddp_play/guard/apptainer_preparation.py": "the program that it has started",
    "src/ddp_play/guard/pyxis_container.py": "the program that it has started",
    "src/ddp_play/guard/gpus.py": "the program that it has started",
    "src/ddp_play/guard/peer_probe.py": "the listener that it has forked",
    "src/ddp_play/guard/sampling.py": "the process that it has started",
    "src/ddp_play/guard/rank_program.py": "the program that it has started",
    "src/ddp_play/guard/shared_lock_check.py": "a lock for the check",
    "src/ddp_play/guard/source_orders.py": "pieces of the source that arrived for it",
    "src/ddp_play/guard/source_staging.py": "the archive that it makes, and its pieces",
    "src/ddp_play/guard/source_store.py": "pieces, which can be sent again",
    "src/ddp_play/guard/source_unpacking.py": "the archive that it has unpacked, and files that an interruption left",
    "src/ddp_play/guard/usage_record.py": "a lock of the record of usage",
    "src/ddp_play/run/activity_viewer.py": "the directory that it has made",
    "src/ddp_play/run/hook_process.py": "the command that it has started",
    "src/ddp_play/run/jump_host.py": "the lock and the mark of a connection",
    "src/ddp_play/run/judged_outcome.py": "the outcome that it has stored",
    "src/ddp_play/run/session_place.py": "the socket of a session that was killed, with its lock",
    "src/ddp_play/run/session_request.py": "the socket of a session that is dead",
    "src/ddp_play/run/session_server.py": "its own socket",
    "src/ddp_play/run/submission.py": "the directory that it has made",
}


def acting(path: Path) -> bool:
    """Whether a module has such a call."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return bool({func.attr for func in calls if isinstance(func, ast.Attribute)} & ACTS)


@pytest.fixture(params=targets(), ids=lambda target: target.path)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


def test_a_listed_module_has_tests(target: Target) -> None:
    assert (ROOT / target.path).is_file()
    assert target.tests
    assert [test for test in target.tests if not (ROOT / test).is_file()] == []
    assert target.does in ("removes", "signals", "fences", "leases", "judges")


def test_an_equivalent_mutant_changes_a_line_that_exists(target: Target) -> None:
    lines = [line.strip() for line in (ROOT / target.path).read_text(encoding="utf-8").splitlines()]
    for row in target.equivalent:
        assert row.reason
        assert any(line.startswith(row.before.split("  # ")[0]) for line in lines), row


def test_every_module_that_acts_is_listed() -> None:
    found = {
        path.relative_to(ROOT).as_posix() for where in WHERE for path in (ROOT / where).glob("*.py") if acting(path)
    }
    listed = {target.path for target in targets()}
    assert found - listed == set(OWN_THINGS_ONLY)


def test_a_listed_equivalent_is_recognized_without_its_comment() -> None:
    row = Equivalent("f", "return a or b  # why", "return a and b", "no difference")
    target = Target("x.py", "judges", (), (row,))
    assert target.is_equivalent(Mutant(3, "f", "return a  or b", "return a and b  # why", ""))
    assert not target.is_equivalent(Mutant(3, "g", "return a or b", "return a and b", ""))
