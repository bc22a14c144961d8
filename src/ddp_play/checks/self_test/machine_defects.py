"""Defects of single hosts that the quick level must find: CPUs, memory, disks, limits, processes, software, login."""

from __future__ import annotations

from ddp_play.checks.self_test.defect import Defect, inside, limit, program_of, unit

STATE = "/home/ops/.local/state/ddp-play/host"
SHARED = "/srv/ddp-play-shared"
TORCH = "/usr/lib/python3/dist-packages/torch-{version}.dist-info"
LISTEN = "import socket,time; s=socket.socket(); s.bind((str(), 29545)); s.listen(); time.sleep(600)"
LEAK = "import os,time; os.fork() or os._exit(0); time.sleep(600)"
PYTHON = "$(readlink -f /usr/bin/python3)"


def torch(host: str, version: str) -> str:
    """What pip leaves of a package, without the package."""
    path = TORCH.format(version=version)
    return inside(host, f'mkdir -p {path} && printf "Name: torch\\nVersion: {version}\\n" > {path}/METADATA')


HARDWARE = (
    Defect(22, "cpu quota", "docker update --cpus 0.6 {h2}", "docker update --cpus $(nproc) {h2}",
           "cpu quota", ("h2",), says="0.6 of"),
    Defect(23, "fewer cpus", "docker update --cpuset-cpus 0 {h3}", "docker update --cpuset-cpus 0-$(($(nproc) - 1)) "
           "{h3}", "cpu", ("h3",), says="1 of {cpus} CPUs"),
    Defect(25, "memory limit", "docker update --memory 700m --memory-swap -1 {h2}",
           "docker update --memory 4096g --memory-swap -1 {h2}", "memory limit", ("h2",), says="700 of"),
)  # fmt: skip
DISKS = (
    Defect(26, "disk of runs is full", inside("h2", f"mount -t tmpfs -o size=20m,mode=0700,uid=1000 none {STATE}"),
           inside("h2", f"umount {STATE}"), "disk of runs", ("h2",), says="MiB free"),
    Defect(26, "no inodes", inside("h1", f"mount -t tmpfs -o nr_inodes=500,size=2g,mode=0700,uid=1000 none {STATE}"),
           inside("h1", f"umount {STATE}"), "disk of runs", ("h1",), says="of 500 inodes"),
    Defect(27, "directory of runs is read-only", inside("h3", f"mount --bind {STATE} {STATE} && "
           f"mount -o remount,bind,ro {STATE}"), inside("h3", f"umount {STATE}"), "state directory", ("h3",),
           says="Read-only"),
    Defect(31, "server of the shared directory is silent", *program_of("h2", "silent_mount.py", SHARED),
           "host reached", ("h2",), says=f"still at the shared directory {SHARED}", options=("--within", "40s")),
    Defect(33, "shared directory is read-only", inside("h2", f"mount --bind {SHARED} {SHARED} && mount -o "
           f"remount,bind,ro {SHARED}"), inside("h2", f"umount {SHARED}"), "shared directory", ("h2",),
           says="Read-only"),
    Defect(34, "another shared directory", inside("h3", f"mount -t tmpfs -o mode=1777 none {SHARED}"),
           inside("h3", f"umount {SHARED}"), "shared by all", ("h3",), says="not seen within 3 s"),
)  # fmt: skip
LIMITS = (
    Defect(28, "small shared memory", inside("h1", "mount -o remount,size=16m /dev/shm"),
           inside("h1", "mount -o remount,size=1g /dev/shm"), "shared memory", ("h1",), says="of 16 MiB"),
    Defect(29, "few open files", *limit("h2", "nofile 256"), "open files", ("h2",), says="at most 256"),
    Defect(29, "few processes", *limit("h3", "nproc 450"), "processes limit", ("h3",), "warn", "at most 450"),
    Defect(29, "little locked memory", *limit("h1", "memlock 64"), "locked memory", ("h1",), "warn", "65536 bytes"),
    Defect(30, "few pids", "docker update --pids-limit 120 {h3}", "docker update --pids-limit 60000 {h3}",
           "pids limit", ("h3",), says="of 120"),
    Defect(40, "few ephemeral ports", inside("h1", "sysctl -qw net.ipv4.ip_local_port_range=\"40000 40019\""),
           inside("h1", "sysctl -qw net.ipv4.ip_local_port_range=\"32768 60999\""), "ephemeral ports", ("h1",),
           says="20 ports"),
    Defect(41, "small tcp windows", inside("h2", "sysctl -qw net.ipv4.tcp_rmem=\"4096 8192 16384\""),
           inside("h2", "sysctl -qw net.ipv4.tcp_rmem=\"4096 131072 33554432\""), "setting: net.ipv4.tcp_rmem",
           ("h2",), "warn", "4096 8192 16384"),
)  # fmt: skip
SOFTWARE = (
    Defect(35, "other torch", " && ".join([torch("h1", "2.13.0"), torch("h2", "2.13.0"), torch("h3", "2.12.1")]),
           " && ".join(inside(host, f"rm -r {TORCH.format(version='*')}") for host in ("h1", "h2", "h3")),
           "version: torch", ("h3",), says="2.12.1"),
    # of the program on the host only: a container has no clock of its own
    Defect(37, "clock is 5 s ahead", "docker exec -i {h2} sh -c 'cat > /usr/local/lib/later_clock.py' < "
           "{files}/later_clock.py && " + inside("h2", f"p={PYTHON}; mv $p $p.kept; "
           "printf \"#!/bin/sh\\nexec $p.kept -I /usr/local/lib/later_clock.py 5 \\\"\\$@\\\"\\n\" > $p; chmod 755 $p"),
           inside("h2", f"p={PYTHON}; mv $p.kept $p; rm /usr/local/lib/later_clock.py"), "clock", ("h2",), says="5"),
    Defect(38, "listener on a port of jobs", *unit("h2", LISTEN), "job ports in use", ("h2",), "warn",
           "29545 by process"),
    Defect(39, "process that nobody reaps", unit("h3", LEAK)[0] + " && sleep 11", unit("h3", LEAK)[1], "processes",
           ("h3",), "warn", "not reaped"),
    Defect(39, "reboot is pending", inside("h3", "cd /run; touch reboot-required; echo linux-image > "
           "reboot-required.pkgs"), inside("h3", "rm /run/reboot-required /run/reboot-required.pkgs"), "reboot",
           ("h3",), "warn", "linux-image"),
    Defect(45, "reading that hangs", inside("h2", "touch /run/reboot-required; mkfifo /run/reboot-required.pkgs"),
           inside("h2", "rm /run/reboot-required /run/reboot-required.pkgs"), "reboot", ("h2",), "not run",
           "no answer within 8 s"),
)  # fmt: skip
LOGINS = (
    Defect(19, "host key has changed", inside("h3", "mkdir /root/keys; mv /etc/ssh/ssh_host_* /root/keys/; "
           "ssh-keygen -qA; systemctl restart ssh"), inside("h3", "rm /etc/ssh/ssh_host_*; mv /root/keys/* /etc/ssh/; "
           "rmdir /root/keys; systemctl restart ssh"), "host reached", ("h3",), says="host key"),
    Defect(42, "login is refused", inside("h2", "usermod -s /usr/sbin/nologin ops"),
           inside("h2", "usermod -s /bin/bash ops"), "host reached", ("h2",)),
    Defect(42, "login prints text", inside("h2", "cd /home/ops; cp .bashrc .bashrc.kept; "
           "echo \"echo welcome to {h2}; echo {\" >> .bashrc"),
           inside("h2", "mv /home/ops/.bashrc.kept /home/ops/.bashrc")),
)  # fmt: skip
DEFECTS = (*HARDWARE, *DISKS, *LIMITS, *SOFTWARE, *LOGINS)
