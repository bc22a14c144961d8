"""A templar for a process that evaluates the expressions of a role's tasks, each of which names many variables."""

from __future__ import annotations

import functools
from typing import Any

from ansible.template import Templar

COMPILES = ("_compile_template", "_compile_expression")  # methods of the templar's engine


def role_templar(loader: Any) -> Templar:
    """A templar that compiles each text once.

    Ansible compiles the text of a variable again each time that another one names it: that of the operating system 30
    times. What is kept follows from the text and its options alone; values are computed anew. There is no public way to
    keep it. Where a series of ansible-core has other names, each text is compiled each time, and a test says so.
    """
    templar = Templar(loader=loader)
    engine = getattr(templar, "_engine", None)
    for name in COMPILES:
        if method := getattr(engine, name, None):
            setattr(engine, name, functools.cache(method))
    return templar
