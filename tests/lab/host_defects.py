"""Defects of hosts for tests of `ddp-play check`: how each is made and mended, and the one finding that it must give.

In commands `{h1}` is the container of host h1 and `{a1}` its address. They run on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from .rank_jobs import SHARED

STATE = "/home/ops/.local/state/ddp-play/host"
TORCH = "/usr/lib/python3/dist-packages/torch-{version}.dist-info"
LISTEN = "import socket,time; s=socket.socket(); s.bind((str(), 29545)); s.listen(); time.sleep(600)"
LEAK = "import os,time; os.fork() or os._exit(0); time.sleep(600)"


@dataclass(frozen=True)
class Defect:
    """One defect. `where`: the hosts that its finding names; `ways`: the directions."""

    name: str
    seed: str
    mend: str
    check: str
    where: tuple[str, ...]
    result: str = "fail"
    says: str = ""
    ways: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.name


def inside(host: str, command: str) -> str:
    """A command of root on a host."""
    return f"docker exec {{{host}}} sh -c '{command}'"


def hosts_file(host: str, script: str) -> tuple[str, str]:
    """Commands that change /etc/hosts with sed, and change it back. The file is a mount."""
    change = f'cp /etc/hosts /root/hosts.kept; sed "{script}" /root/hosts.kept > /etc/hosts'
    return inside(host, change), inside(host, "cat /root/hosts.kept > /etc/hosts")


def rule(host: str, text: str) -> tuple[str, str]:
    """Commands that add and delete a firewall rule."""
    return inside(host, f"iptables -A {text}"), inside(host, f"iptables -D {text}")


def limit(host: str, text: str) -> tuple[str, str]:
    """Commands that set a limit of the login and remove it."""
    path = "/etc/security/limits.d/zz-defect.conf"
    return inside(host, f'echo "ops hard {text}" > {path}'), inside(host, f"rm {path}")


def unit(host: str, program: str) -> tuple[str, str]:
    """Commands that start a Python program of user ops as a systemd unit, and end it."""
    start = f'systemd-run -q --collect --unit defect --uid ops python3 -c "{program}"'
    return inside(host, start), inside(host, "systemctl stop defect")


def torch(host: str, version: str) -> str:
    """What pip leaves of a package, without the package."""
    path = TORCH.format(version=version)
    return inside(host, f'mkdir -p {path} && printf "Name: torch\\nVersion: {version}\\n" > {path}/METADATA')


DEFECTS = (
    Defect("mtu", inside("h2", "ip link set eth0 mtu 1400"), inside("h2", "ip link set eth0 mtu 1500"), "mtu",
           ("h2",), says="1400"),
    Defect("mtu black hole", *rule("h1", "OUTPUT -p udp -d {a2} -m length --length 1450:65535 -j DROP"), "path mtu",
           ("h1", "h2"), ways=(("h1", "h2"),), says="1500 bytes do not"),
    Defect("ports dropped one way", *rule("h1", "INPUT -s {a2} -p tcp --dport 29500:29999 -j DROP"), "ports",
           ("h1", "h2"), ways=(("h2", "h1"),), says="timeout on 12 tested ports from 29500 to 29999"),
    Defect("ports refused one way", *rule("h3", "INPUT -s {a2} -p tcp --dport 29600:29700 -j REJECT "
           "--reject-with tcp-reset"), "ports", ("h2", "h3"), ways=(("h2", "h3"),), says="refused on 2 tested ports"),
    Defect("ports dropped from all", *rule("h3", "INPUT -p tcp --syn --dport 1024:65535 -j DROP"), "ports", ("h3",),
           ways=(("h1", "h3"), ("h2", "h3")), says="and ephemeral ports"),
    Defect("own name is loopback", *hosts_file("h2", "s/^{a2}/127.0.1.1/"), "own name", ("h2",), "warn", "127.0.1.1"),
    Defect("name of a peer is wrong", *hosts_file("h3", "1i {a1} h2"), "names of peers", ("h3",), says="h2 is"),
    Defect("resolver is dead", inside("h1", "cp /etc/resolv.conf /root/resolv.kept; "
           "echo nameserver 192.0.2.1 > /etc/resolv.conf"), inside("h1", "cat /root/resolv.kept > /etc/resolv.conf"),
           "name service", ("h1",), "warn", "no answer"),
    Defect("address twice", inside("h1", "ip addr add {net}.200/24 dev eth0") + " && "
           + inside("h3", "ip addr add {net}.200/24 dev eth0"), inside("h1", "ip addr del {net}.200/24 dev eth0")
           + " && " + inside("h3", "ip addr del {net}.200/24 dev eth0"), "addresses", ("h1", "h3"), says="{net}.200"),
    Defect("machine id twice", inside("h2", "cp /etc/machine-id /root/id.kept")
           + " && docker exec {h1} cat /etc/machine-id | docker exec -i {h2} sh -c 'cat > /etc/machine-id'",
           inside("h2", "cat /root/id.kept > /etc/machine-id"), "machine id", ("h1", "h2")),
    Defect("host name twice", inside("h3", "hostname h1"), inside("h3", "hostname h3"), "host name", ("h1", "h3")),
    Defect("host key twice", inside("h3", "mkdir /root/kept; cp -p /etc/ssh/*.pub /root/kept/")
           + " && docker exec {h2} sh -c 'cat /etc/ssh/ssh_host_ed25519_key.pub' | "
           "docker exec -i {h3} sh -c 'cat > /etc/ssh/ssh_host_ed25519_key.pub'",
           inside("h3", "cp -p /root/kept/*.pub /etc/ssh/; rm -r /root/kept"), "ssh host keys", ("h2", "h3")),
    Defect("route by another network", inside("h2", "ip link add br-other type bridge && ip link set br-other up && "
           "ip addr add 172.30.99.1/24 dev br-other && ip route add {a3}/32 dev br-other"),
           inside("h2", "ip link del br-other"), "routes to peers", ("h2",), says="to h3 by br-other (172.30.99.1)"),
    Defect("second default route", inside("h1", "ip route add default via {net}.1 dev eth0 metric 50"),
           inside("h1", "ip route del default via {net}.1 dev eth0 metric 50"), "default routes", ("h1",), "warn"),
    Defect("cpu quota", "docker update --cpus 0.6 {h2}", "docker update --cpus $(nproc) {h2}",
           "cpu quota", ("h2",), says="0.6 of"),
    Defect("fewer cpus", "docker update --cpuset-cpus 0 {h3}", "docker update --cpuset-cpus 0-$(($(nproc) - 1)) {h3}",
           "cpu", ("h3",), says="1 of {cpus} CPUs"),
    Defect("disk of runs is full", inside("h2", f"mount -t tmpfs -o size=20m,mode=0700,uid=1000 none {STATE}"),
           inside("h2", f"umount {STATE}"), "disk of runs", ("h2",), says="MiB free"),
    Defect("no inodes", inside("h1", f"mount -t tmpfs -o nr_inodes=500,size=2g,mode=0700,uid=1000 none {STATE}"),
           inside("h1", f"umount {STATE}"), "disk of runs", ("h1",), says="of 500 inodes"),
    Defect("small shared memory", inside("h1", "mount -o remount,size=16m /dev/shm"),
           inside("h1", "mount -o remount,size=1g /dev/shm"), "shared memory", ("h1",), says="of 16 MiB"),
    Defect("few open files", *limit("h2", "nofile 256"), "open files", ("h2",), says="at most 256"),
    Defect("few processes", *limit("h3", "nproc 450"), "processes limit", ("h3",), "warn", "at most 450"),
    Defect("little locked memory", *limit("h1", "memlock 64"), "locked memory", ("h1",), "warn", "65536 bytes"),
    Defect("few pids", "docker update --pids-limit 120 {h3}", "docker update --pids-limit 60000 {h3}", "pids limit",
           ("h3",), says="of 120"),
    Defect("another shared directory", inside("h3", f"mount -t tmpfs -o mode=1777 none {SHARED}"),
           inside("h3", f"umount {SHARED}"), "shared by all", ("h3",), says="not seen within 3 s"),
    Defect("shared directory is read-only", inside("h2", f"mount --bind {SHARED} {SHARED} && mount -o remount,bind,ro "
           f"{SHARED}"), inside("h2", f"umount {SHARED}"), "shared directory", ("h2",), says="Read-only"),
    Defect("other torch", " && ".join([torch("h1", "2.13.0"), torch("h2", "2.13.0"), torch("h3", "2.12.1")]),
           " && ".join(inside(host, f"rm -r {TORCH.format(version='*')}") for host in ("h1", "h2", "h3")),
           "version: torch", ("h3",), says="2.12.1"),
    Defect("listener on a port of jobs", *unit("h2", LISTEN), "job ports in use", ("h2",), "warn", "29545 by process"),
    Defect("process that nobody reaps", unit("h3", LEAK)[0] + " && sleep 11", unit("h3", LEAK)[1], "processes",
           ("h3",), "warn", "not reaped"),
    Defect("few ephemeral ports", inside("h1", "sysctl -qw net.ipv4.ip_local_port_range=\"40000 40019\""),
           inside("h1", "sysctl -qw net.ipv4.ip_local_port_range=\"32768 60999\""), "ephemeral ports", ("h1",),
           says="20 ports"),
    Defect("small tcp windows", inside("h2", "sysctl -qw net.ipv4.tcp_rmem=\"4096 8192 16384\""),
           inside("h2", "sysctl -qw net.ipv4.tcp_rmem=\"4096 131072 33554432\""), "setting: net.ipv4.tcp_rmem",
           ("h2",), "warn", "4096 8192 16384"),
    Defect("reboot is pending", inside("h3", "cd /run; touch reboot-required; echo linux-image > reboot-required.pkgs"),
           inside("h3", "rm /run/reboot-required /run/reboot-required.pkgs"), "reboot", ("h3",), "warn", "linux-image"),
    Defect("reading that hangs", inside("h2", "touch /run/reboot-required; mkfifo /run/reboot-required.pkgs"),
           inside("h2", "rm /run/reboot-required /run/reboot-required.pkgs"), "reboot", ("h2",), "not run",
           "no answer within 8 s"),
)  # fmt: skip
