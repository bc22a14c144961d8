"""Passwords for hosts of a run that has no supervisor any more: ddp-play does not store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.cli.password_prompt import ask_passwords
from ddp_play.errors import UsageError
from ddp_play.planning.short_lists import short_list
from ddp_play.run.submission import check_password, hosts_with_password

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords
    from ddp_play.bundle.paths import RunPaths


def ask_passwords_of(paths: RunPaths, verb: str, *, ssh: bool, become: bool) -> Passwords:
    """Ask for what the run logs in with. `verb`: the command that needs it; `ssh`: it was given -k, `become`: -K.

    UsageError if the run needs an SSH password and was not given -k, or if a host refuses the password.
    """
    hosts = hosts_with_password(paths)
    if hosts and not ssh:
        named = short_list(hosts, 5)
        raise UsageError(
            f"run {paths.run_id} logs in with a password ({named}), which ddp-play does not store",
            hint=f"ddp-play {verb} {paths.run_id} -k asks for it",
        )
    passwords = ask_passwords(connection=ssh, become=become)
    if hosts:
        check_password(paths, verb, passwords.connection)
    return passwords
