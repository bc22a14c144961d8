"""Who holds a lease that others ask for: named by the kernel, whatever the holder claims or keeps silent about."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import guard_files, leases, slot_queue
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import user_name
from tests.unit.guard.free_ports import free_range

if TYPE_CHECKING:
    from collections.abc import Iterator

# The guard runs as a package of its own, without ddp_play.
SOURCES = str(Path(leases.__file__).parents[1])
NAMES = ["slot-0", "slot-1", "slot-2"]


@pytest.fixture
def scope() -> str:
    """A host of its own, for slots."""
    return f"{leases.SCOPE}/slots"


@contextlib.contextmanager
def neighbour(body: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that says `held` once `body` has what it wants. `words`: the last ones of its command line."""
    program = f"import os, socket, sys; sys.path.insert(0, {SOURCES!r})\nfrom guard import leases\n{body}\n"
    program += "print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.communicate()


@pytest.mark.usefixtures("patient_readings")
def test_whoever_holds_a_slot_is_named_however_often_one_asks(tmp_path: Path, scope: str) -> None:
    """By the kernel and the guard's command line: nothing written down that could be stale."""
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    # a queue of one: without an answer the second question would find no room
    body = f"leases.socket.SOMAXCONN = 0\nheld = leases.hold('slot-1', {scope!r}).answer()"
    with neighbour(body, "guard-0123.pyc", "guard", str(root)):
        for _ in range(5):
            told = leases.slots_problem(NAMES, 3, scope)
            assert told == "2 of 3 slots free and 3 needed; held by run night-1 of kim"
            time.sleep(0.1)
        assert leases.slots_problem(NAMES, 2, scope) == ""
    assert leases.slots_problem(NAMES, 3, scope) == ""


@pytest.mark.parametrize("num_guards", [1, 2])
def test_specs_that_do_not_answer_are_waited_for_once_at_most(
    tmp_path: Path, scope: str, monkeypatch: pytest.MonkeyPatch, num_guards: int
) -> None:
    """A controller drops a channel that is silent for 5 s."""
    monkeypatch.setattr(guard_files, "_SPECS", guard_files.GuardFiles())
    monkeypatch.setattr(guard_files, "_spec", lambda *_: time.sleep(60))
    with contextlib.ExitStack() as stack:
        for guard in range(num_guards):
            held = (
                f"held = [leases.hold(f'slot-{{n}}', {scope!r}).answer() for n in range({4 * guard}, {4 * guard + 4})]"
            )
            root = str(tmp_path / "runs" / f"night{guard}-1" / "1.h1")
            stack.enter_context(neighbour(held, "guard-0123.pyc", "guard", root))
        names, took_s = [f"slot-{n}" for n in range(4 * num_guards)], []
        who = ", ".join(f"run night{guard}-1 of {user_name(os.geteuid())}" for guard in range(num_guards))
        for _ in range(2):
            began = time.monotonic()
            told = leases.slots_problem(names, 1, scope)
            took_s.append(time.monotonic() - began)
            assert told == f"0 of {len(names)} slots free and 1 needed; held by {who}"
    assert guard_files.LIMIT_S <= took_s[0] < 2 * guard_files.LIMIT_S
    assert took_s[1] < guard_files.LIMIT_S, "who hangs is not asked again at once"


def test_a_question_takes_no_slot(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "hold", lambda *_: pytest.fail("it took one"))
    assert leases.slots_problem(NAMES, 3, scope) == ""


def test_a_run_whose_slots_are_taken_is_refused_with_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    slot_queue.check_slots({})
    wanted = {"names": ["slot-0"], "need": 1}
    slot_queue.check_slots(wanted)
    held = leases.hold("slot-0", leases.slot_scope())
    assert held is not None
    with held.answer(), pytest.raises(Refused, match="0 of 1 slots free and 1 needed; held by process") as caught:
        slot_queue.check_slots(wanted)
    assert (caught.value.kind, "the same command with --wait" in caught.value.hint) == ("slots", True)


AS_NOBODY = "os.setgroups([]); os.setgid(65534); os.setuid(65534)" if os.geteuid() == 0 else ""
WHO = user_name(65534 if AS_NOBODY else os.geteuid())


@pytest.mark.usefixtures("patient_readings")
def test_a_neighbour_on_our_slot_or_port_is_named_and_keeps_it_no_longer_than_it_lives(scope: str) -> None:
    port = free_range()
    body = f"{AS_NOBODY}\na = leases.hold('slot-0', {scope!r}); b = leases.hold('port-{port}', {leases.SCOPE!r})"
    with neighbour(body) as process:
        who = f"process {process.pid} of {WHO}"
        assert leases.slots_problem(["slot-0"], 1, scope) == f"0 of 1 slots free and 1 needed; held by {who}"
        assert leases.lease_port(port, port, []) is None
        assert leases.ports_problem(port, port) == f"no free port between {port} and {port}; 1 leased by {who}"
    assert leases.slots_problem(["slot-0"], 1, scope) == ""
    assert leases.ports_problem(port, port) == f"no free port between {port} and {port}"


@pytest.mark.usefixtures("patient_readings")
def test_a_neighbour_that_claims_to_be_anothers_guard_is_told_by_its_own_name(tmp_path: Path, scope: str) -> None:
    if not AS_NOBODY:
        pytest.skip("needs root, to be two users")
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    body = f"{AS_NOBODY}\na = leases.hold('slot-0', {scope!r})"
    with neighbour(body, "guard-0123.pyc", "guard", str(root)):
        assert leases.slots_problem(["slot-0"], 1, scope).endswith(f"held by run night-1 of {WHO}")


@pytest.mark.usefixtures("patient_readings")
def test_a_neighbour_whose_own_guard_names_another_owner_is_told_by_its_own_name(tmp_path: Path, scope: str) -> None:
    if not AS_NOBODY:
        pytest.skip("needs root, to be two users")
    root = tmp_path / "runs" / "night-1" / "1.h1"
    root.mkdir(parents=True)
    (root / "spec.json").write_text('{"owner": "kim"}')
    os.chown(root / "spec.json", 65534, 65534)
    body = f"{AS_NOBODY}\na = leases.hold('slot-0', {scope!r})"
    with neighbour(body, "guard-0123.pyc", "guard", str(root)):
        assert leases.slots_problem(["slot-0"], 1, scope).endswith(f"held by run night-1 of {WHO} (as kim)")


@pytest.mark.parametrize("listens", [False, True])
def test_a_holder_that_does_not_answer_counts_as_one(scope: str, listens: bool) -> None:
    body = f"a = socket.socket(socket.AF_UNIX); a.bind('\\0{scope}/slot-0')\nif {listens}: a.listen(0)"
    with neighbour(body):
        if listens:
            assert "process" in leases.slots_problem(["slot-0"], 1, scope), "the one question there is room for"
        assert leases.hold("slot-0", scope) is None
        told = leases.slots_problem(["slot-0"], 1, scope)
        assert told.startswith("0 of 1 slots free and 1 needed; held by a process that does not answer")


def test_a_holders_message_reaches_whoever_asks(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "MESSAGE_S", 0.05)
    assert leases.message_of("run-night", scope) == b"", "nobody holds it"
    held = leases.hold("run-night", scope)
    assert held is not None
    with held:
        assert leases.message_of("run-night", scope) == b"", "it does not answer"
    held = leases.hold("run-night", scope)
    assert held is not None
    monkeypatch.setattr(leases, "MESSAGE_S", 10.0)
    with held.answer(b"night.0123"):
        assert [leases.message_of("run-night", scope) for _ in range(2)] == [b"night.0123"] * 2


def test_holders_of_other_ports_are_not_named() -> None:
    first = free_range()
    held = leases.hold_slots([f"port-{first}", f"port-{first + 3}"], 2, "")
    with held[0].answer(), held[1].answer():
        assert leases.ports_problem(first + 1, first + 2) == f"no free port between {first + 1} and {first + 2}"
        assert "; 2 leased by process " in leases.ports_problem(first, first + 3)


def test_many_holders_are_counted() -> None:
    assert leases._listed([f"run r{n} of kim" for n in range(8)]).endswith(", run r4 of kim, 3 more")
    assert leases._listed(["run r1 of kim"] * 8) == "run r1 of kim"
    assert leases._listed([f"r{n}" for n in range(5)]) == "r0, r1, r2, r3, r4"


def test_every_name_of_the_kernels_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0001 01 10001 @ddp-play/slot-0\n"
        "0000: 00000003 00000000 00000000 0001 03 10002\n"
        "0000: 00000002 00000000 00010000 0001 01 10003 /run/a name with blanks\n"
    )
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: table)
        assert leases.bound_names() - {"Path"} == {"@ddp-play/slot-0", "/run/a name with blanks"}
    monkeypatch.setattr(leases, "Path", lambda _: Path("/proc/net/no-such-table"))
    assert leases.bound_names() == set()


def test_a_lease_is_free_at_once_when_it_is_closed(scope: str) -> None:
    for _ in range(20):
        lease = leases.hold("slot-0", scope)
        assert lease is not None, "the thread that answers must not keep the name"
        with lease.answer():
            pass
