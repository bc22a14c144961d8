"""The program for the hosts: the same bytes for the same sources, and a loader that really starts it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible import discover_action, host_problems
from ddp_play.errors import HostNotReady
from ddp_play.guard import loader
from ddp_play.guard.protocol import MAGIC, FrameReader, encode
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.run import host_program


def start(*arguments: str, python: str = sys.executable, feed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", host_program.shell_command(python, *arguments)],
        input=host_program.preamble() + feed,
        capture_output=True,
        timeout=60,
        check=False,
    )


def answered(stdout: bytes) -> bytes:
    """Payload of the one frame that the program has sent."""
    ((_, payload),) = FrameReader(expect_magic=True).feed(stdout)
    return payload


def test_the_same_sources_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = host_program.program()
    host_program.program.cache_clear()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert host_program.program() == first


def test_it_holds_the_guard_and_nothing_else() -> None:
    with zipfile.ZipFile(BytesIO(host_program.program())) as archive:
        names = archive.namelist()
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert [name for name in names if not name.startswith("guard/")] == ["__main__.py"]
    assert "guard/daemon.py" in names


def test_the_header_has_the_length_that_the_loader_reads() -> None:
    header, _, rest = host_program.preamble().partition(b"\n")
    size, digest = header.split()
    assert len(header) == 83
    assert int(size) == len(rest)
    assert len(digest) == 64


@pytest.mark.parametrize("python", [sys.executable, ""])
def test_it_starts_and_answers(python: str) -> None:
    done = start("channel", python=python, feed=encode("facts", wanted={"engine": False, "shared_dir": "/nowhere"}))
    facts = discover_action.checked_facts(
        answered(done.stdout), sent=time.time() - 60, received=time.time(), inventory={"slots": 3}
    )
    known = facts_from_json("h1", facts)
    assert (known.name, known.slots, known.cpus) == ("h1", 3, len(os.sched_getaffinity(0)))
    assert known.shared is not None
    assert known.shared.problem == "does not exist"
    assert known.engine is None
    assert "lo" in {link.name for link in known.interfaces}
    assert known.rank_python_problem == ""


def test_it_is_kept_by_its_hash_and_used_again() -> None:
    place = Path(os.environ["DDP_PLAY_HOST_DIR"])
    numbers = set()
    for _ in range(2):
        assert start("runs").returncode == 0
        (kept,) = place.glob("guard-*")
        numbers.add(kept.stat().st_ino)
    assert len(numbers) == 1
    digest = hashlib.sha256(host_program.program()).hexdigest()
    assert kept.name == f"guard-{digest[:16]}-{sys.implementation.cache_tag}-{sys.hexversion:x}.pyc"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_it_runs_from_its_byte_code() -> None:
    """Every process of the program would compile all sources anew."""
    assert start("runs").returncode == 0
    names = {path.name for path in host_program.GUARD.glob("*.py")} - {"state_directory.py"}  # is looked at before
    broken = host_program.zipped(dict.fromkeys(names, b"no Python"))
    digest = hashlib.sha256(host_program.program()).hexdigest().encode()
    header, _, rest = host_program.framed(broken).partition(b"\n")
    header = b" ".join([header.split()[0], digest]).ljust(83)
    command = host_program.shell_command(sys.executable, "runs")
    sent = header + b"\n" + rest
    done = subprocess.run(["/bin/sh", "-c", command], input=sent, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_directory_that_a_user_names_is_checked_before_its_program_runs(tmp_path: Path) -> None:
    """Whoever has made it may show files of any owner and mode there (FUSE)."""
    assert start("runs").returncode == 0
    place = Path(os.environ["DDP_PLAY_HOST_DIR"])
    (kept,) = place.glob("guard-*")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    named = tmp_path / "open" / "named"
    named.mkdir()
    (named / kept.name).write_bytes(kept.read_bytes())
    (named / kept.name).chmod(0o600)
    command = host_program.shell_command(sys.executable, "runs", state_dir=str(named))
    sent = host_program.preamble()
    done = subprocess.run(["/bin/sh", "-c", command], input=sent, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"others may replace what is in {named.parent}" in done.stderr.decode()


def test_an_order_of_many_paths_fits_into_a_command_line() -> None:
    """The kernel takes 128 KiB for one argument."""
    paths = [f"/var/lib/ddp-play/runs/amber-crane-{number}.{number:016x}/1.gpu{number:04}" for number in range(3000)]
    command = host_program.shell_command("/usr/bin/python3", "clean", json.dumps({"paths": paths}))
    assert len(command) < 128 << 10


def test_the_host_variable_goes_before_the_environment_of_the_login(tmp_path: Path) -> None:
    command = host_program.shell_command(sys.executable, "channel", state_dir=str(tmp_path / "it's mine"))
    feed = host_program.preamble() + encode("facts", wanted={})
    done = subprocess.run(["/bin/sh", "-c", command], input=feed, capture_output=True, timeout=60, check=False)
    facts = json.loads(answered(done.stdout))
    assert facts["state_dir"]["path"] == str(tmp_path / "it's mine")
    assert len(list((tmp_path / "it's mine").glob("guard-*.pyc"))) == 1


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_nothing_is_run_from_where_others_may_write(mode: int) -> None:
    place = Path(os.environ["DDP_PLAY_HOST_DIR"])
    digest = hashlib.sha256(host_program.program()).hexdigest()
    (place / loader.file_name(digest)).write_text("print('a neighbour was here')")
    place.chmod(mode)
    done = start("runs")
    assert done.returncode == 1
    assert b"neighbour" not in done.stdout
    words = f"ddp-play does not use {place}: others may write to it (owner: uid {os.geteuid()}, mode {mode:04o})"
    with pytest.raises(HostNotReady, match=re.escape(words)):
        discover_action.parse_answer(done.stdout.decode(), done.stderr.decode())


def test_the_loader_is_python_of_the_hosts_and_short() -> None:
    """Every look at the processes of a host shows it."""
    ast.parse(host_program.loader(), feature_version=(3, 9))
    assert len(host_program.shell_command("", "channel")) < 4096


def test_a_loader_of_an_earlier_version_starts_this_program() -> None:
    """`channels.json` of a run has the loader of the version that started it, and another version may take it over.

    It executes `guard/state_directory.py` alone, and the zip file itself.
    """
    with zipfile.ZipFile(BytesIO(host_program.program())) as archive:
        names: dict[str, Any] = {"__name__": "state_directory"}
        exec(archive.read("guard/state_directory.py"), names)
    directory = names["create"]()
    assert directory == os.environ["DDP_PLAY_HOST_DIR"]
    assert "cannot keep the files" in names["problem"](directory, OSError(28, "no space"))
    assert issubclass(names["UnusableError"], Exception)
    stored = Path(directory, "guard-0123.pyz")
    stored.write_bytes(host_program.program())
    done = subprocess.run([sys.executable, "-I", "-S", stored, "runs"], capture_output=True, check=False, timeout=60)
    assert (done.returncode, b'"runs"' in done.stdout) == (0, True), done.stderr


def test_what_follows_the_program_stays_unread_for_it() -> None:
    done = start("channel", feed=encode("nonsense") + encode("bye"))
    reader = FrameReader(expect_magic=True)
    frames = reader.feed(done.stdout)
    assert done.stdout.startswith(MAGIC)
    assert [(header["t"], header["message"]) for header, _ in frames] == [("refused", "unknown order nonsense")]


def test_half_a_program_is_not_started() -> None:
    half = host_program.preamble()[:2000]
    done = subprocess.run(
        ["/bin/sh", "-c", host_program.shell_command(sys.executable, "runs")],
        input=half,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 71
    assert list(Path(os.environ["DDP_PLAY_HOST_DIR"]).glob("*")) == []


# Prints its arguments instead of being the guard.
ECHO = b"import json, sys; print(json.dumps(sys.argv[1:]))"
WORDS = ("it's", "a b", '{"a": "$HOME `x`"}', "größe", "", "a\\nb\\\\", "!! !$", "two\nlines", "*?[a]~", "%s %d")
SHELLS = ("sh", "dash", "bash", "zsh", "ksh", "csh", "tcsh", "fish")


def echoing() -> bytes:
    """What the loader reads when the program prints its arguments."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", ECHO)
        for name in ("state_directory", "stored_modules"):
            archive.write(host_program.GUARD / f"{name}.py", f"guard/{name}.py")
    return host_program.framed(buffer.getvalue())


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "as Ansible wraps it for become"])
@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_survive_every_login_shell(shell: str, wrapped: bool, tmp_path: Path) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    command = f"/bin/sh -c {shlex.quote(host_program.shell_command('', 'facts', *WORDS))}"
    if wrapped:
        command = f"/bin/sh -c {shlex.quote(f'echo BECOME-SUCCESS ; {command}')}"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([path, "-c", command], input=echoing(), capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1]) == ["facts", *WORDS]


@pytest.mark.parametrize("python", ["/usr/bin/python3", ""])
def test_the_command_line_has_nothing_that_a_login_shell_reads_between_quotes(python: str) -> None:
    """Line breaks and `!` are csh's and tcsh's, backslashes are fish's."""
    command = host_program.shell_command(python, "facts", *WORDS)
    assert command.isascii()
    assert not set("\n!\\") & set(command)


def test_a_python_with_a_blank_in_its_path(tmp_path: Path) -> None:
    (tmp_path / "py thon").symlink_to(sys.executable)
    command = host_program.shell_command(str(tmp_path / "py thon"), "runs")
    assert subprocess.run(["/bin/sh", "-c", command], input=echoing(), capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("what", ["read-only", "a file"])
def test_a_host_that_keeps_no_files_says_where_and_what_helps(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path("/proc/ddp-play") if what == "read-only" else Path(os.environ["DDP_PLAY_HOST_DIR"], "file", "below")
    if what == "a file":
        place.parent.write_text("")
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(place))
    done = start("runs")
    with pytest.raises(HostNotReady) as caught:
        discover_action.parse_answer(done.stdout.decode(), done.stderr.decode())
    assert f"cannot keep the files of ddp-play in {place}: " in caught.value.message
    assert "become (-b)" in caught.value.message
    assert "set ddp_state_dir for the host" in caught.value.message


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("python", ["/nowhere/python3.12", ""])
def test_a_host_without_python_is_recognised(shell: str, python: str) -> None:
    path = next((Path(d, shell) for d in ("/bin", "/usr/bin") if Path(d, shell).exists()), None)
    if path is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run(
        [path, "-c", host_program.shell_command(python, "runs")],
        env={"PATH": "/nowhere"},
        capture_output=True,
        check=False,
    )
    assert host_problems.problem_from_text("h1", done.stderr.decode(), "h1", reached=True)["kind"] == "python"
