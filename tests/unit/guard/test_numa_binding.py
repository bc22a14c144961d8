"""NUMA binding of real children, and that nothing of it stays on this thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ddp_play.guard import numa_binding
from ddp_play.guard.numa_facts import nodes, numbers, ranges

ALLOWED = sorted(os.sched_getaffinity(0))
LAST = str(ALLOWED[-1])
MEMORY = [str(row["node"]) for row in nodes() if row["memory"]]
needs_policy = pytest.mark.skipif(
    numa_binding.memory_policy() is None or not MEMORY, reason="this kernel or container has no memory policies"
)


def child(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_a_child_has_the_cpus_and_this_thread_its_own_again() -> None:
    with numa_binding.bound(LAST, ""):
        assert child("import os; print(*os.sched_getaffinity(0))") == LAST
    assert sorted(os.sched_getaffinity(0)) == ALLOWED
    assert child("import os; print(*sorted(os.sched_getaffinity(0)))") == " ".join(map(str, ALLOWED))


@needs_policy
def test_a_child_has_memory_of_the_node_only() -> None:
    before = numa_binding.memory_policy()
    with numa_binding.bound("", MEMORY[0]):
        assert numa_binding.memory_policy() == (numa_binding.MPOL_BIND, frozenset({int(MEMORY[0])}))
        assert f" bind:{MEMORY[0]} " in child("print(open('/proc/self/numa_maps').read())")
    assert numa_binding.memory_policy() == before
    assert " bind:" not in child("print(open('/proc/self/numa_maps').read())")


@needs_policy
def test_a_policy_that_this_thread_had_comes_back() -> None:
    with numa_binding.bound("", MEMORY[0]):
        with numa_binding.bound("", MEMORY[0]):
            pass
        assert numa_binding.memory_policy() == (numa_binding.MPOL_BIND, frozenset({int(MEMORY[0])}))


def test_without_a_binding_nothing_is_set() -> None:
    with numa_binding.bound("", ""):
        assert sorted(os.sched_getaffinity(0)) == ALLOWED


def test_no_usable_cpu_is_an_error_and_nothing_stays() -> None:
    with pytest.raises(OSError, match="this process may not use the CPUs 900-901"), numa_binding.bound("900-901", "0"):
        pytest.fail("bound to CPUs that are not there")
    assert sorted(os.sched_getaffinity(0)) == ALLOWED


def test_an_error_inside_leaves_this_thread_as_it_was() -> None:
    policy = numa_binding.memory_policy()
    with pytest.raises(FileNotFoundError), numa_binding.bound(LAST, "0"):
        subprocess.run(["/nowhere"], check=True)
    assert sorted(os.sched_getaffinity(0)) == ALLOWED
    assert numa_binding.memory_policy() == policy


def test_cpus_count_where_memory_policies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose numbers of system calls are not known, or a container that filters them."""
    monkeypatch.setattr(numa_binding, "CALLS", {})
    with numa_binding.bound(LAST, "0"):
        assert child("import os; print(*os.sched_getaffinity(0))") == LAST
    assert numa_binding.memory_policy() is None


def test_cpus_that_this_process_may_not_use_end_no_rank_that_did_not_ask_for_them() -> None:
    """The channel, which sees the CPUs, may have others than the guard."""
    with numa_binding.bound("900-901", ""):
        assert sorted(os.sched_getaffinity(0)) == ALLOWED


def test_a_node_that_is_not_there_leaves_memory_unbound() -> None:
    before = numa_binding.memory_policy()
    with numa_binding.bound(LAST, "1000"):
        assert numa_binding.memory_policy() == before


def test_other_threads_keep_their_cpus() -> None:
    """Only the thread that starts the rank is bound meanwhile: the guard goes on with its work on all CPUs."""
    go, done, seen = threading.Event(), threading.Event(), []

    def look() -> None:
        go.wait(30)
        seen.append(Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text())
        done.set()

    other = threading.Thread(target=look)
    other.start()
    with numa_binding.bound(LAST, ""):
        go.set()
        assert done.wait(30)
    other.join(30)
    listed = next(line for line in seen[0].splitlines() if line.startswith("Cpus_allowed_list:"))
    assert ranges(numbers(listed.partition(":")[2])) == ranges(ALLOWED)
