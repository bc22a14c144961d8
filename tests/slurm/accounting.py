"""Accounting for a cluster of this machine: a MariaDB and a slurmdbd of its own, in the cluster's directory."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.slurm.cluster import START_S
from tests.slurm.daemons import start_daemon
from tests.slurm.machine import SEARCH_PATH, free_ports
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.slurm.cluster import Cluster

PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "sacctmgr")
CONFIGURATION = """\
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm
PidFile={directory}/slurmdbd.pid
LogFile={directory}/slurmdbd.log
"""


def lacking_accounting() -> str:
    """Why no accounting can be started here; empty if it can."""
    missing = [program for program in PROGRAMS if not shutil.which(program, path=SEARCH_PATH)]
    return f"not installed here: {', '.join(missing)} (slurmdbd, mariadb-server)" if missing else ""


@dataclass
class Accounting:
    """The two daemons. `lines` are for slurm.conf; `start` comes after the cluster's munge, before its controller."""

    directory: Path
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port, self.database_port = free_ports(2)

    @property
    def lines(self) -> tuple[str, ...]:
        """What slurm.conf says about it."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self.port}",
            f"AccountingStoragePass={self.directory}/munge.socket",
            "JobAcctGatherType=jobacct_gather/linux",
        )

    def start(self, cluster: Cluster) -> None:
        """Start both, the database first, and add the cluster, an account and a user."""
        data = self.directory / "database"
        make = ("mariadb-install-db", f"--datadir={data}", "--user=root", "--auth-root-authentication-method=normal")
        subprocess.run(make, check=True, capture_output=True, env={**os.environ, "PATH": SEARCH_PATH})
        socket = self.directory / "database.socket"
        where = (f"--datadir={data}", f"--socket={socket}", f"--port={self.database_port}", "--bind-address=127.0.0.1")
        self._daemon(cluster, "mariadbd", "--no-defaults", "--user=root", *where)
        ask = ("mariadb", "--no-defaults", f"--socket={socket}", "--user=root", "--execute")
        wait_until(lambda: self._succeeds(*ask, "select 1"), timeout_s=START_S, what="the database")
        grant = f"grant all on slurm.* to slurm@127.0.0.1 identified by '{self.password}'; create database slurm;"
        assert self._succeeds(*ask, grant), "the database refuses its user"
        path = self.directory / "slurmdbd.conf"
        path.touch(0o600)
        path.write_text(CONFIGURATION.format(**vars(self)))
        self._daemon(cluster, "slurmdbd", "-D")
        wait_until(lambda: f":{self.port:04X} " in self._listening(), timeout_s=START_S, what="slurmdbd")
        for words in (("cluster", "small"), ("account", "team"), ("user", "root", "account=team")):
            cluster.run("sacctmgr", "--immediate", "add", *words, check=False)

    def stop(self) -> None:
        """End both, the newest first."""
        for child in reversed(self.children):
            child.terminate()
            child.wait(30)

    def _daemon(self, cluster: Cluster, program: str, *arguments: str) -> None:
        output = self.directory / f"{program}.out"
        self.children.append(start_daemon(output, cluster.environment, program, *arguments))

    @staticmethod
    def _succeeds(*words: str) -> bool:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    @staticmethod
    def _listening() -> str:
        return "".join(path.read_text().upper() for path in Path("/proc/net").glob("tcp*"))
