"""The viewer's side of `ddp-play top`: starts the playbook that asks the hosts, and reads what it writes.

The playbook runs in a process of its own, so that this one can draw. It ends when this one is gone, however that ended:
it looks for the lock that this one holds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import IO, TYPE_CHECKING, Any

from ddp_play.ansible.error_output import PING
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.plugin_variables import ACTIVITY_ENV
from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.run_locks import is_locked
from ddp_play.errors import DdpPlayError, InternalError, error_class
from ddp_play.run.fleet_activity import ANSWERS, ROUNDS_ONCE, VIEWER, ActivityOrders

if TYPE_CHECKING:
    from types import TracebackType

    from ddp_play.ansible.runner import PlaybookRunner

ENDED, LOG = "ended.json", "log"


def ask_once(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner) -> dict[str, Any]:
    """What runs on all hosts now. Raises what Ansible says if it could not ask them."""
    with TemporaryDirectory(prefix="ddp-play-top-") as scratch:
        _run_playbook(request, passwords, runner, ActivityOrders(scratch, rounds=ROUNDS_ONCE))
        return read_json(Path(scratch, ANSWERS))


def _run_playbook(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, orders: ActivityOrders
) -> None:
    top = dataclasses.replace(
        request,
        playbook=str(collection_root() / "playbooks" / "top.yml"),
        environment={**request.environment, ACTIVITY_ENV: orders.to_text()},
    )
    private = Path(orders.directory, "ansible")
    outcome = runner.run(top, private_dir=private, passwords=passwords, on_event=lambda _event: None)
    if not Path(orders.directory, ANSWERS).exists():
        raise outcome.error(remedy=PING) or InternalError(
            "the hosts were not asked", hint="ansible-inventory --list shows the hosts of the inventory"
        )


class LiveActivity:
    """Activity that is asked for again and again, from `with` to its end."""

    def __init__(self, request: PlaybookRequest, passwords: Passwords) -> None:
        self._given = json.dumps({"request": request.to_json(), "passwords": dataclasses.asdict(passwords)}).encode()
        self._directory = Path()
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._round = 0

    def __enter__(self) -> LiveActivity:
        self._directory = Path(mkdtemp(prefix="ddp-play-top-"))
        self._lock = (self._directory / VIEWER).open("a")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        command = [sys.executable, "-P", "-m", "ddp_play.run.activity_viewer", str(self._directory)]
        with (self._directory / LOG).open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
        self._process = process
        if process.stdin is not None:
            process.stdin.write(self._given)
            process.stdin.close()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Tell the process by the lock that nobody looks any more; it removes the directory, unless it has ended."""
        if self._lock is not None:
            self._lock.close()
        if self._process is not None and self._process.poll() is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        elif self._process is not None:
            self._process.returncode = 0  # no warning from Popen: it ends in a moment

    def newest(self) -> dict[str, Any]:
        """The newest answers, if they are new; else empty. Raises the error if the hosts can no longer be asked."""
        found = read_json(self._directory / ANSWERS)
        if found.get("round", 0) != self._round:
            self._round = int(found["round"])
            return found
        if self._process is not None and self._process.poll() is not None:
            raise _ended(self._directory)
        return {}


def _ended(directory: Path) -> DdpPlayError:
    """Why the process has ended, which should go on as long as somebody looks."""
    row = read_json(directory / ENDED)
    if not row:
        text = (directory / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return InternalError(f"the process that asks the hosts has ended: {text[-1] if text else 'it printed nothing'}")
    return error_class(row["kind"])(row["message"], hint=row["hint"])


def main() -> None:
    """Run the playbook for the viewer with the request and the passwords on standard input."""
    given = json.loads(sys.stdin.buffer.read())
    request, passwords = PlaybookRequest.from_json(given["request"]), Passwords(**given["passwords"])
    directory = Path(sys.argv[1])
    try:
        _run_playbook(request, passwords, AnsibleRunner(), ActivityOrders(str(directory)))
    except DdpPlayError as error:
        with contextlib.suppress(OSError):  # the viewer has taken its directory away
            write_json(directory / ENDED, {"kind": error.kind, "message": error.message, "hint": error.hint})
    finally:
        if not is_locked(directory / VIEWER):  # nobody looks any more, or the viewer was killed
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
