"""Which connections share one to their jump host, and with what ssh is asked for it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ddp_play.run.jump_host import open_shared, shared_proxy_command

AT = Path("/home/ops/.ansible/cp")


def jump(*options: str, config: str = "", tmp_path: Path) -> list[str]:
    """The words of ssh for the jump host; empty where the connection is left as it is."""
    path = tmp_path / "config"
    path.write_text(config)
    words = shlex.split(shared_proxy_command(["ssh", "-F", str(path), *options, "h1"], AT))
    return [word.replace(str(path), "CONFIG") for word in words[words.index("%p") + 1 :]] if words else []


@pytest.mark.parametrize(
    ("options", "config", "words"),
    [
        ((), "", []),
        (("-o", "ProxyJump=bastion"), "", ["ssh", "-F", "CONFIG", "ssh://bastion"]),
        (("-J", "ops@bastion:2222"), "", ["ssh", "-F", "CONFIG", "ssh://ops@bastion:2222"]),
        (("-J", "a,ops@b:22"), "", ["ssh", "-F", "CONFIG", "-J", "a", "ssh://ops@b:22"]),
        ((), "Host h1\nProxyJump bastion", ["ssh", "-F", "CONFIG", "ssh://bastion"]),
        (("-o", "ProxyCommand=ssh -W %h:%p -q ops@b"), "", ["ssh", "-q", "ops@b"]),
        (("-o", "ProxyCommand=exec ssh -i 'a key' b -W [%h]:%p"), "", ["ssh", "-i", "a key", "b"]),
        (("-o", "ProxyCommand=ssh -l %r b -W %h:%p"), "", []),
        (("-o", "ProxyCommand=ssh -o ControlPath=/x b -W %h:%p"), "", []),
        (("-o", "ProxyCommand=ssh b nc %h %p"), "", []),
        (("-o", "ProxyCommand=nc -X connect -x proxy:3128 %h %p"), "", []),
        (("-J", "bastion"), "Host bastion\nControlMaster auto\nControlPath /x", []),
    ],
)
def test_the_way_to_the_jump_host(options: tuple[str, ...], config: str, words: list[str], tmp_path: Path) -> None:
    assert jump(*options, config=config, tmp_path=tmp_path) == words


def test_one_socket_for_one_jump_host_and_a_path_that_fits(tmp_path: Path) -> None:
    a, again, b = (shared_proxy_command(["ssh", "-F", "/dev/null", "-J", name, "h"], AT) for name in ("x", "x", "y"))
    assert a == again != b
    assert shared_proxy_command(["ssh", "-F", "/dev/null", "-J", "x", "h"], tmp_path / ("long" * 30)) == ""


def test_a_percent_sign_is_no_token_of_ssh(tmp_path: Path) -> None:
    command = shared_proxy_command(["ssh", "-F", "/dev/null", "-J", "x", "h"], Path("/home/50%h"))
    assert "/home/50%%h/j" in command


def test_a_jump_host_that_refuses_is_tried_once_and_says_why(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho x >>{tried}\necho 'ops@b: Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    assert "Permission denied" in open_shared(str(tmp_path / "j"), [str(ssh), "b"])
    assert tried.read_text().count("x") == 2, "the question whether a connection is open, and one try to open it"
