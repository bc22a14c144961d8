"""CPUs and memory nodes of a child: set for this thread while it starts the child, which inherits both.

Not in the child between fork and exec: there, only calls that are safe in a process with several threads are allowed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from typing import FrozenSet, Iterator, Optional, Tuple

from .numa_facts import numbers

MPOL_DEFAULT, MPOL_BIND = 0, 2
MAX_NODES = 1024  # nodes that a kernel can be built for
# Numbers of get_mempolicy and set_mempolicy, which the C library does not wrap: <asm/unistd.h>.
CALLS = {"x86_64": (239, 238), "aarch64": (236, 237), "riscv64": (236, 237), "ppc64le": (260, 261), "s390x": (269, 270)}
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_Mask = ctypes.c_ulong * (MAX_NODES // _LONG_BITS)


@contextlib.contextmanager
def bound(cpus: str, memory_nodes: str) -> Iterator[None]:
    """Children that this thread starts have these CPUs, and memory of these nodes only; empty: no binding.

    Raises OSError if this process may use none of the CPUs. Memory is not bound where the kernel or a filter of system
    calls (that of containers, for instance) refuses it.
    """
    before = os.sched_getaffinity(0)
    if cpus:
        try:
            os.sched_setaffinity(0, numbers(cpus))
        except OSError as error:
            if not memory_nodes:  # not asked for: the guard may have other CPUs than the channel that saw them
                yield
                return
            raise OSError(error.errno, "this process may not use the CPUs %s" % cpus) from error
    policy = _bind_memory(numbers(memory_nodes)) if memory_nodes else None
    try:
        yield
    finally:
        if policy is not None:
            _set_policy(*policy)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def _bind_memory(nodes: FrozenSet[int]) -> Optional[Tuple[int, FrozenSet[int]]]:
    """Bind this thread's memory; return its policy before, or None if nothing was changed."""
    before = memory_policy()
    if before is None or not _set_policy(MPOL_BIND, nodes):
        return None
    return before


def memory_policy() -> Optional[Tuple[int, FrozenSet[int]]]:
    """Mode and nodes of this thread's memory policy; None where they cannot be read."""
    calls, mode, mask = _calls(), ctypes.c_int(), _Mask()
    if calls is None:
        return None
    if ctypes.CDLL(None).syscall(
        calls[0], ctypes.byref(mode), mask, ctypes.c_ulong(MAX_NODES), None, ctypes.c_ulong(0)
    ):
        return None
    nodes = frozenset(node for node in range(MAX_NODES) if mask[node // _LONG_BITS] >> node % _LONG_BITS & 1)
    return mode.value, nodes


def _set_policy(mode: int, nodes: FrozenSet[int]) -> bool:
    calls, mask = _calls(), _Mask()
    for node in nodes:
        mask[node // _LONG_BITS] |= 1 << node % _LONG_BITS
    if calls is None:
        return False
    given = None if mode == MPOL_DEFAULT else mask
    # the kernel reads one bit less than the number says
    size = ctypes.c_ulong(MAX_NODES + 1 if given else 0)
    return int(ctypes.CDLL(None).syscall(calls[1], mode, given, size)) == 0


def _calls() -> Optional[Tuple[int, int]]:
    return CALLS.get(platform.machine()) if sys.maxsize > 2**32 else None
