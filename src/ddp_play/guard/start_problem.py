"""Why a program could not be started: its working directory, the program itself, or the interpreter of a script."""

from __future__ import annotations

import os
from typing import List, Optional

# Of the first line of a script; the kernel reads no more (binfmt_script.c).
FIRST_LINE = 256


def words(argv: List[str], workdir: str, error: Exception) -> str:
    """The reason in words. The kernel's errors name neither the interpreter nor, always, the directory."""
    if isinstance(error, FileNotFoundError) and not os.path.isdir(workdir):
        return "the working directory %s does not exist" % workdir
    program = os.path.join(workdir, argv[0]) if "/" in argv[0] else ""
    if isinstance(error, PermissionError) and os.path.isfile(program) and not os.access(program, os.X_OK):
        return "%s is not executable" % argv[0]
    interpreter = _interpreter(program)
    if isinstance(error, FileNotFoundError) and interpreter and not os.path.exists(interpreter):
        ends = ": the line ends with a carriage return" if interpreter.endswith("\r") else ""
        return "%s needs %s, which does not exist%s" % (argv[0], interpreter.rstrip("\r"), ends)
    return str(error)


def _interpreter(program: str) -> Optional[str]:
    """The interpreter in the first line of a script; None for other files."""
    try:
        with open(program, "rb") as script:
            line = script.read(FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    return os.fsdecode(line[2:].strip(b" \t").split(b" ", 1)[0])
