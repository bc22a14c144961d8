"""What runs in the processes that a session forks itself: the background process of a run, and the warm-up."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.callers_process import CallersProcess, set_name, use_as_standard
from ddp_play.ansible.descriptor_messages import receive, send
from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest, PlaybookStatus
from ddp_play.bundle.paths import RunPaths, write_text
from ddp_play.run.background_process import in_background

if TYPE_CHECKING:
    import socket

    from ddp_play.run.session_place import SessionPlace

WARM_UP = Path(__file__).parents[1] / "ansible" / "files" / "warm_up.yml"
SOURCES = Path(__file__).parents[2]
GO_S = 5.0
CLIENT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from ddp_play.ansible.playbook_client import main; main()"


def write_program(place: SessionPlace) -> None:
    """The program in the place of ansible-playbook. It stays where it is when the session ends: a run may need it."""
    words = [sys.executable, "-I", "-S", "-c", CLIENT, str(SOURCES), str(place.address)]
    write_text(place.program, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', mode=0o700)


def run(
    connection: socket.socket, request: dict[str, Any], descriptors: list[int], programs: str, session: int
) -> None:
    """Be the background process of a run, once the caller has said so."""
    reading, log = descriptors
    os.setsid()
    use_as_standard(reading, log, os.dup(log))
    CallersProcess.from_json(request["process"]).enter()
    set_name("ddp-play run")
    connection.settimeout(GO_S)
    try:
        send(connection, {"pid": os.getpid()})
        receive(connection)
    except (OSError, EOFError):
        return  # a caller that has given up started the run itself
    connection.close()
    paths = RunPaths(Path(request["run_dir"]))
    in_background(paths, AnsibleRunner(programs), take_over_run=bool(request["take_over"]), session=session)
    sys.stdout.flush()
    sys.stderr.flush()


def warm_up(request: PlaybookRequest, programs: str) -> None:
    """Run a playbook without tasks in the way of a run. Exit code 0 if it did."""
    os.setsid()
    CallersProcess.this().enter()
    null = os.open(os.devnull, os.O_RDWR)
    use_as_standard(null, os.dup(null), os.dup(null))
    set_name("ddp-play warmup")
    with tempfile.TemporaryDirectory(prefix="ddp-play-session-") as scratch:
        nothing = PlaybookRequest(str(WARM_UP), request.inventory, request.cwd)
        outcome = AnsibleRunner(programs).run(
            nothing, private_dir=Path(scratch), passwords=Passwords(), on_event=lambda _: None
        )
    os._exit(0 if outcome.status is PlaybookStatus.OK else 1)
