"""Kinds of defects that hosts of containers can have, by number, and why some of them cannot be made here."""

from __future__ import annotations

from ddp_play.checks.self_test import machine_defects, network_defects, reach_defects

KINDS = {
    1: "slow network of one host",
    2: "slow in one direction",
    3: "one slow link",
    4: "packets lost",
    5: "packets changed on the way",
    6: "packets delayed",
    7: "packets out of order",
    8: "another MTU",
    9: "large packets lost (MTU black hole)",
    10: "ports blocked in one direction",
    11: "ports refused, not blocked",
    12: "high ports blocked from everybody",
    13: "own name is a loopback address",
    14: "name of a peer has a wrong address",
    15: "resolver is dead",
    16: "resolver is slow",
    17: "one address on two hosts",
    18: "machine id, host name or host key on two hosts",
    19: "host key has changed",
    20: "route to a peer by another network",
    21: "second default route",
    22: "CPU quota",
    23: "fewer CPUs",
    24: "noisy neighbour",
    25: "memory limit",
    26: "disk or inodes full",
    27: "directory of runs is read-only",
    28: "small /dev/shm",
    29: "limits of the login",
    30: "limit of processes of a control group",
    31: "shared directory hangs",
    32: "shared directory is slow",
    33: "shared directory is read-only",
    34: "another directory at the shared path",
    35: "other software",
    36: "other image of the same name",
    37: "clock is off",
    38: "somebody listens on a port of jobs",
    39: "processes that hang or are not reaped, reboot pending",
    40: "few ephemeral ports",
    41: "small TCP windows",
    42: "login: refused, or it prints text",
    43: "several defects at once, all hosts bad",
    44: "link that goes down and up",
    45: "a reading of the check hangs",
}
NOT_MADE = {
    24: "the host's CPUs are those of the machine, and a load on one of two slows all hosts of a lab",
    32: "it needs an NFS server, which containers do not have; the check has no limit for the speed of a directory",
    36: "it needs hosts with an engine and a job with an image",
}
DEFECTS = (*machine_defects.DEFECTS, *reach_defects.DEFECTS, *network_defects.DEFECTS)
