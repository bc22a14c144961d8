"""The fixtures of the table of remedies."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.remedies.logins import USERS
from tests.remedies.scene import Scene
from tests.run import ssh_server
from tests.run.conftest import play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.run.conftest import Play
    from tests.run.ssh_server import SshServer

__all__ = ["play"]


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SshServer]]:
    """Starts the SSH server when the first row needs it."""
    with ExitStack() as stack:
        made: list[SshServer] = []

        def start() -> SshServer:
            if not made:
                directory = tmp_path_factory.mktemp("ssh") / "server"
                made.append(stack.enter_context(ssh_server.running(directory, USERS)))
            return made[0]

        yield start


@pytest.fixture
def scene(play: Play, start_server: Callable[[], SshServer]) -> Iterator[Scene]:
    """A scene; what the row changed is put back afterwards."""
    made = Scene(play, start_server)
    # Connections of other rows stay open for a while, and a login over them proves nothing.
    sockets = tempfile.mkdtemp(prefix="remedies-")
    play.environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = sockets
    yield made
    made.close()
    shutil.rmtree(sockets)
