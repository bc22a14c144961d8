"""Users of the SSH server, by what is wrong with their login."""

from __future__ import annotations

from tests.run.ssh_server import User

PASSWORD = "open sesame"
USERS = [
    User("ops", "/bin/bash"),
    User("sudoer", "/bin/bash", password=PASSWORD, sudoers="sudoer ALL=(ALL) ALL"),
    User("visitor", "/bin/bash", password=PASSWORD),
    User("tty", "/bin/bash", sudoers="Defaults:tty requiretty\ntty ALL=(ALL) NOPASSWD: ALL"),
    User("rohome", "/bin/bash", mount="ro"),
    User("typed", "/bin/bash", password=PASSWORD),
    User("gone", "/bin/bash", aging="19000:0:99999:7::1"),
    User("stale", "/bin/bash", aging="0:0:99999:7::"),
    User("system", "/usr/sbin/nologin"),
    User("full", "/bin/bash", files={"fill": "x" * 65536}, mount="size=64k"),
]
