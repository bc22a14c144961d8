"""Ansible in a process that waits for a playbook: imports, inventory, and the run of PlaybookCLI after a fork.

The private seams to ansible-core of a session are all here: `CLI._play_prereqs`, `init_plugin_loader`, and the values
that Ansible draws once per process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing.util
import os
import random
import sys
import tempfile
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ddp_play.ansible import inventory_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a run needs of Ansible, and of ddp-play in Ansible's process. No plugins: a module that has a plugin's name
# already would take the place of the user's own plugin of this name.
MODULES = (
    "multiprocessing.synchronize",
    "xml.dom.minidom",
    "ansible.cli.playbook",
    "ansible.executor.playbook_executor",
    "ansible.executor.task_executor",
    "ansible.executor.process.worker",
    "ansible.playbook.handler_task_include",
    "ddp_play.ansible.plan_action",
    "ddp_play.ansible.registry_server",
    "ddp_play.planning.job_secrets",
    "ddp_play.planning.planner",
    "ddp_play.run.discovery",
    "ddp_play.run.jump_host",
    "ddp_play.run.supervise_action",
)
# Options of ansible-playbook with which it reads the inventory itself: they change how, or what is printed.
READING_OPTIONS = ("vault_ids", "vault_password_files", "ask_vault_pass", "flush_cache", "verbosity")

# Settings that each run has its own value of: a new directory, and what ansible-runner sets.
OF_THE_RUN = ("DEFAULT_LOCAL_TMP", "CACHE_PLUGIN_CONNECTION")


def import_ansible() -> bool:
    """Import what a run needs. False if Ansible prints something about that: every run must print it then."""
    with _captured() as captured:
        for name in MODULES:
            with contextlib.suppress(ImportError):  # of another version
                import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection of a child copies all of this
    from ansible import constants  # noqa: PLC0415 - reads the environment

    return not captured() and not constants.DEFAULT_LOG_PATH  # whose file is opened at the import


def inventories(argv: list[str]) -> list[str]:
    """The inventories of a command line of ansible-playbook; without any, those that Ansible's configuration names."""
    from ansible import constants  # noqa: PLC0415 - reads the environment

    return inventory_signature.sources_of(argv) or list(constants.DEFAULT_HOST_LIST)


class Inventory:
    """An inventory that was read before the fork. `static`: nothing but its files decided what is in it."""

    def __init__(self, sources: list[str], *, static: bool) -> None:
        from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
        from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
        from ansible.plugins import loader as plugins  # noqa: PLC0415

        self.sources, self.static = sources, static
        self.loader = DataLoader()
        plugins.init_plugin_loader()
        for kind in (plugins.connection_loader, plugins.shell_loader, plugins.become_loader):
            list(kind.all(class_only=True))  # as ansible-playbook does, before it reads a playbook
        self.loader.set_vault_secrets([])
        self.manager = InventoryManager(loader=self.loader, sources=self.sources)
        gc.collect()
        gc.freeze()


def collections() -> tuple[tuple[str, bool], ...]:
    """The configured directories of collections, and whether they have any: Ansible looks once."""
    from ansible import constants  # noqa: PLC0415

    return tuple((path, os.path.isdir(f"{path}/ansible_collections")) for path in constants.COLLECTIONS_PATHS)  # noqa: PTH112


def has_own_plugins() -> bool:
    """Are there plugins of the user among those that are imported with the inventory? They may change at any time."""
    from ansible.plugins import loader as plugins  # noqa: PLC0415

    imported = (plugins.connection_loader, plugins.shell_loader, plugins.become_loader)
    paths = {path for kind in (*imported, plugins.inventory_loader, plugins.vars_loader) for path in kind.config}
    return any(name.endswith(".py") for path in paths if os.path.isdir(path) for name in os.listdir(path))  # noqa: PTH112, PTH208


def read_inventory(sources: list[str], *, static: bool) -> Inventory | None:
    """The inventory; None if a playbook has to read it itself: it is bad, or printed warnings, or needs a vault."""
    from ansible import constants  # noqa: PLC0415

    if constants.DEFAULT_VAULT_IDENTITY_LIST or constants.DEFAULT_VAULT_PASSWORD_FILE:
        return None
    if constants.config.get_config_value("SSH_AGENT") != "none":
        return None
    if has_own_plugins():
        return None
    found = None
    with _captured() as captured, contextlib.suppress(Exception, SystemExit):  # the playbook reports it
        found = Inventory(sources, static=static)
    return None if captured() else found


def run_playbook(argv: list[str], inventory: Inventory | None) -> int:
    """Run ansible-playbook in this forked process, which ends afterwards. Returns the exit code."""
    from ansible import cli, constants  # noqa: PLC0415
    from ansible.utils import vars as unique  # noqa: PLC0415

    atexit._clear()  # what the parent made is the parent's
    atexit.register(multiprocessing.util._exit_function)  # type: ignore[attr-defined]
    for name in OF_THE_RUN:
        setattr(constants, name, constants.config.get_config_value(name))
    unique.random_int = f"{random.SystemRandom().getrandbits(32):08x}"
    if inventory is not None:
        cli.init_plugin_loader = lambda *_: None  # it was called before the inventory was read
    sys.argv = argv
    try:
        _cli_class(inventory).cli_executor(argv)
    except SystemExit as end:
        code = _exit_code(end)
    except KeyboardInterrupt:
        code = 99
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code


def _exit_code(end: SystemExit) -> int:
    if isinstance(end.code, str):
        sys.stderr.write(end.code + "\n")
        return 1
    return int(end.code or 0) & 0xFF


def _cli_class(inventory: Inventory | None) -> Any:
    from ansible import context  # noqa: PLC0415
    from ansible.cli.playbook import PlaybookCLI  # noqa: PLC0415
    from ansible.vars.manager import VariableManager  # noqa: PLC0415

    class WarmPlaybookCLI(PlaybookCLI):  # type: ignore[misc]
        """ansible-playbook with an inventory that was read before."""

        def _play_prereqs(self) -> tuple[Any, Any, Any]:
            options = context.CLIARGS
            if inventory is None or any(options.get(name) for name in READING_OPTIONS):
                found: tuple[Any, Any, Any] = super()._play_prereqs()
                return found
            others = options.get("extra_vars") and not inventory.static  # a plugin may use them
            if others or list(options["inventory"]) != inventory.sources:
                return super()._play_prereqs()  # type: ignore[no-any-return]
            loader, manager = inventory.loader, inventory.manager
            variables = VariableManager(loader=loader, inventory=manager, version_info=self.version_info(gitinfo=False))
            return loader, manager, variables

    WarmPlaybookCLI.__name__ = PlaybookCLI.__name__
    return WarmPlaybookCLI


@contextlib.contextmanager
def _captured() -> Iterator[Callable[[], bytes]]:
    """Standard output and error output of the block go to a file; the result returns its content."""
    with tempfile.TemporaryFile() as file:
        saved = [(number, os.dup(number)) for number in (1, 2)]
        for number, _ in saved:
            os.dup2(file.fileno(), number)
        content = b""
        try:
            yield lambda: content
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
            file.seek(0)
            content = file.read()
