"""Failures of the controller that `ddp-play doctor` finds; its commands are on lines of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.remedies.rows import Row
from tests.remedies.scene import chmod_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.remedies.scene import Scene

AREA = "Found by ddp-play doctor on the controller"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n"


def readable_key(scene: Scene) -> list[str]:
    scene.play.write(".ssh/id_ed25519", KEY).chmod(0o644)
    return ["doctor"]


def open_home(scene: Scene) -> list[str]:
    scene.play.home.mkdir()
    scene.play.home.chmod(0o777)
    return ["doctor"]


def with_environment(**variables: str) -> Callable[[Scene], list[str]]:
    def make(scene: Scene) -> list[str]:
        scene.play.environment |= variables
        return ["doctor"]

    return make


def long_path(scene: Scene) -> list[str]:
    scene.play.environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = f"{scene.cwd}/{'long/' * 20}cp"
    return ["doctor"]


def open_directory(scene: Scene) -> list[str]:
    scene.play.write("ansible.cfg", "[defaults]\n")
    chmod_later(scene, scene.cwd, 0o755)
    scene.cwd.chmod(0o777)
    return ["doctor"]


def other_programs(scene: Scene) -> list[str]:
    scene.play.write("bin/ansible-playbook", "#!/bin/sh\n").chmod(0o755)
    scene.play.environment["PATH"] = f"{scene.cwd}/bin:{scene.play.env()['PATH']}"
    return ["doctor"]


ROWS = (
    Row(
        "private key that others may read",
        AREA,
        "others may read ...id_ed25519",
        "-> `chmod 600 FILE`",
        readable_key,
        1,
    ),
    Row(
        "state directory that others may write to",
        AREA,
        "others may write there",
        "-> `chmod 700 DIRECTORY`",
        open_home,
        1,
    ),
    Row(
        "locale without UTF-8",
        AREA,
        "Ansible refuses to start without UTF-8",
        "-> `export LC_ALL=C.UTF-8`",
        with_environment(LC_ALL="xx_YY.UTF-8"),
        1,
    ),
    Row(
        "long path of ssh's control sockets",
        AREA,
        "ssh cannot make its control sockets there",
        "-> `export ANSIBLE_SSH_CONTROL_PATH_DIR=$(mktemp -d)`",
        long_path,
        1,
    ),
    Row(
        "ansible.cfg that every user may replace",
        AREA,
        "Ansible ignores ...ansible.cfg",
        "-> `chmod o-w DIRECTORY`",
        open_directory,
        0,
    ),
    Row(
        "ansible-playbook of another installation",
        AREA,
        "is of another installation than",
        "-> `export PATH=FILE:$PATH`",
        other_programs,
        1,
    ),
)
