"""What this machine must have before virtual machines can be made on it."""

from __future__ import annotations

import os
import shutil

from ddp_play.errors import DdpPlayError
from ddp_play.lab.docker_client import connect

PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mkfs.ext4": "e2fsprogs",
    "ssh": "openssh-client",
    "tar": "tar",
}


def missing() -> str:
    """One sentence with the command that helps; empty when everything is there."""
    if os.geteuid() != 0:
        return "making a disk image takes root (files of many owners): sudo make vm"
    absent = {program: package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if absent:
        return f"{', '.join(absent)} not found: apt-get install {' '.join(absent.values())}"
    try:
        connect().close()
    except DdpPlayError as error:
        return str(error)
    return ""
