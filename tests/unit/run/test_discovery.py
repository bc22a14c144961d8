"""Facts over channels: real processes in place of ssh, and one problem per host that cannot be used."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.ansible import bounded_execution
from ddp_play.engines.route import Route
from ddp_play.errors import Interrupted
from ddp_play.run import discovery as module
from ddp_play.run.discovery import Discovery, Query
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_program import shell_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.guard.protocol import Frame

HERE = ("/bin/sh", "-c")


@pytest.fixture
def discovery() -> Iterator[Discovery]:
    found = Discovery(20)
    yield found
    found.close()


# More channels than the soft limit of open files allows.
MANY = """
import resource
from ddp_play.run.discovery import Discovery, Query
from ddp_play.engines.route import Route
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
discovery = Discovery(60)
for number in range(40):
    discovery.ask(Query(Route(f"h{number}", ("/bin/sh", "-c"), "sleep 3; exit 3"), "10.0.0.1", {"engine": False}, {}))
discovery.finish()
discovery.close()
print(len(discovery.rows), {row["problem"]["message"] for row in discovery.rows.values()})
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (64, hard))
"""


def query(command: str, *, host: str = "h1", argv: tuple[str, ...] = HERE, become: bool = False, **more: Any) -> Query:
    route = Route(host, argv, command, *(("PASSWORD:", "BECAME") if become else ()))
    return Query(route, "10.0.0.1", {"engine": False}, {"slots": 2, "interface": None}, **more)


def program() -> str:
    """The real program, as it is started on a host."""
    return shell_command(sys.executable, "channel")


def problem(discovery: Discovery, asked: Query) -> dict[str, str]:
    discovery.ask(asked)
    discovery.finish()
    row: dict[str, str] = discovery.rows[asked.route.host]["problem"]
    return row


def test_more_hosts_than_the_soft_limit_of_open_files_allows() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "40 {'the channel ended (exit code 3)'}\nTrue\n"


def test_facts_and_a_channel_that_stays_open(discovery: Discovery) -> None:
    discovery.ask(query(program(), become_password="b", ssh_password="s"))
    discovery.ask(query("echo no shell for you; exit 1", host="h2"))
    discovery.finish()
    found = discovery.rows["h1"]
    assert found["facts"]["inventory"] == {"slots": 2, "interface": None}
    assert found["route"]["host"] == "h1"
    assert discovery.rows["h2"]["problem"]["message"] == "no shell for you"
    assert discovery.passwords() == ({"h1": "b"}, {"h1": "s"})
    channels = discovery.take()
    assert list(channels) == ["h1"]
    channels["h1"].send("beat", id=1)
    frames: list[Frame] = []
    while not frames:
        wait_any([channels["h1"]], 5)
        frames = channels["h1"].receive()
    assert frames[0][0]["t"] == "beat"
    channels["h1"].close()


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("exit 3", "other", "the channel ended (exit code 3)"),
        (
            "echo 'This account is currently not available.'; exit 1",
            "credentials",
            "This account is currently not available.",
        ),
        ("echo /bin/sh: 1: python3: not found >&2; exit 127", "python", "/bin/sh: 1: python3: not found"),
        ("echo sudo: a password is required >&2; exit 1", "become", "sudo: a password is required"),
        ("echo DDP-PLAY-CHANNEL 1; echo hello; sleep 60", "other", "it sent bytes that are no frame"),
        (
            """echo DDP-PLAY-CHANNEL 1; echo '{"t":"facts","n":2}'; printf '{}'; sleep 60""",
            "other",
            "the host's answer is not what ddp-play's program sends",
        ),
    ],
)
def test_a_host_without_an_answer(discovery: Discovery, command: str, kind: str, message: str) -> None:
    found = problem(discovery, query(command))
    assert (found["kind"], found["host"]) == (kind, "h1")
    assert message in found["message"]


def test_a_host_that_is_silent_is_named_with_its_last_words() -> None:
    began = time.monotonic()
    silent = Discovery(1.0)
    found = problem(silent, query("echo 'Your quota is checked' >&2; sleep 60"))
    assert found["message"] == "it did not answer within 1 s; it said: Your quota is checked"
    assert "a mount that does not answer" in found["hint"]
    assert time.monotonic() - began < 20


def test_answers_that_are_not_wanted_any_more_are_not_waited_for() -> None:
    began = time.monotonic()
    discovery = Discovery(60.0, lambda: time.monotonic() - began > 0.5)
    discovery.ask(query("sleep 60"))
    with contextlib.closing(discovery), pytest.raises(Interrupted, match="stopped before it started"):
        discovery.finish()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("where", ["", " >&2"])
def test_a_host_that_prints_without_end(discovery: Discovery, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    found = problem(discovery, query(f"yes{where}; true"))
    assert found["message"] == f"it sent more than {bounded_execution.MAX_MIB} MiB instead of an answer"


@pytest.mark.parametrize(
    ("reads", "password", "message"),
    [
        ("printf PASSWORD: >&2; read a; printf PASSWORD: >&2; read b", "wrong", "sudo does not accept the password"),
        ("printf PASSWORD: >&2; read a", "", "Missing become password"),
    ],
)
def test_become_with_another_password(discovery: Discovery, reads: str, password: str, message: str) -> None:
    found = problem(discovery, query(f"{reads}; sleep 60", become=True, become_password=password))
    assert (found["kind"], found["message"]) == ("become", message)


def ssh(directory: Path, script: str) -> tuple[str, ...]:
    """A command named ssh."""
    path = directory / "ssh"
    path.write_text(f"#!/bin/sh\necho try >> {directory}/tries\n{script}\n")
    path.chmod(0o755)
    return (str(path),)


@pytest.mark.parametrize(
    ("said", "kind", "num_tries"),
    [
        ("Connection closed by 10.0.0.1 port 22", "unreachable", 2),
        ("ops@10.0.0.1: Permission denied (publickey).", "credentials", 1),
        ("Host key verification failed.", "host_key", 1),
    ],
)
def test_ssh_without_a_connection_is_tried_again_where_that_can_help(
    discovery: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: str, num_tries: int
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    argv = ssh(tmp_path, f"echo '{said}' >&2; exit 255")
    found = problem(discovery, query("channel", argv=argv, tries=2))
    assert (found["kind"], found["message"]) == (kind, f"Failed to connect to the host via ssh: {said}")
    assert (tmp_path / "tries").read_text().count("try") == num_tries


def test_the_second_try_answers(discovery: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    argv = ssh(tmp_path, f'[ "$(wc -l < {tmp_path}/tries)" -gt 1 ] || exit 255; exec /bin/sh -c "$1"')
    discovery.ask(query(program(), argv=argv, tries=2))
    discovery.finish()
    assert "facts" in discovery.rows["h1"]


def test_a_host_that_has_answered_is_kept_while_others_take_long(
    discovery: Discovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program would end after 30 s without a message."""
    monkeypatch.setattr(module, "BEAT_S", 0.0)
    beats: list[str] = []
    receive = ProcessChannel.receive

    def counting(channel: ProcessChannel) -> list[Frame]:
        frames = receive(channel)
        beats.extend(header["t"] for header, _ in frames if header["t"] == "beat")
        return frames

    monkeypatch.setattr(ProcessChannel, "receive", counting)
    discovery.ask(query(program()))
    discovery.finish()
    discovery.ask(query("sleep 1; exit 1", host="h2"))
    discovery.refuse("h3", {"host": "h3", "kind": "other", "message": "no", "hint": ""})
    discovery.finish()
    assert set(discovery.rows) == {"h1", "h2", "h3"}
    ((host, channel),) = discovery.take().items()
    assert (host, channel.broken) == ("h1", "")
    assert beats, "heartbeats were answered meanwhile"
    channel.close()
