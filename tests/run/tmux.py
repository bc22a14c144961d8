"""A terminal for tests: a tmux server of the test's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.run.conftest import Play
from tests.waiting import wait_until

COMMAND = str(Path(sys.executable).with_name("ddp-play"))
DEADLINE_S = 40


@dataclass
class Tmux:
    """A tmux server of the test's own with one window, whose text stays when its command has ended."""

    socket: Path
    play: Play

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-u", "-S", str(self.socket), "-f", "/dev/null", *words]
        done = subprocess.run(
            command, env=self.play.env(), cwd=self.play.cwd, capture_output=True, text=True, check=True
        )
        return done.stdout

    def start(self, *words: str, columns: int) -> None:
        """Run ddp-play in the window."""
        self("new-session", "-d", "-x", str(columns), "-y", "24", "sleep 600")
        self("set-option", "-g", "remain-on-exit", "on")
        self.again(*words)

    def again(self, *words: str) -> None:
        """Run another ddp-play in the window."""
        self("respawn-window", "-k", COMMAND, *words)

    def lines(self) -> list[str]:
        """What is on the screen."""
        return [line.rstrip() for line in self("capture-pane", "-p").splitlines()]

    def press(self, *keys: str) -> None:
        """Press keys."""
        self("send-keys", *keys)

    def sees(self, *texts: str) -> list[str]:
        """Wait until all texts are on the screen; its lines."""

        def shown() -> bool:
            return all(text in "\n".join(self.lines()) for text in texts)

        try:
            wait_until(shown, timeout_s=DEADLINE_S, every_s=0.2)
        except AssertionError:
            raise AssertionError(f"{texts} not in\n" + "\n".join(self.lines())) from None
        return self.lines()

    def ended(self) -> None:
        """Wait until the command has ended; tmux's own words for that do not always come."""
        wait_until(lambda: self("display-message", "-p", "#{pane_dead}").strip() == "1", timeout_s=DEADLINE_S)

    def resize(self, columns: int) -> None:
        """Change the size of the window."""
        self("resize-window", "-x", str(columns), "-y", "24")

    def close(self) -> None:
        """End the server and what runs in it."""
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], check=False, capture_output=True)
