"""Defects between hosts that the quick level must find: MTU, ports, names, identity, routes."""

from __future__ import annotations

from ddp_play.checks.self_test.defect import Defect, hosts_file, inside, program_of, rule


def resolver(host: str, address: str) -> tuple[str, str]:
    """Commands that name another server of names, and the old ones again. The file is a mount."""
    change = f"cp /etc/resolv.conf /root/resolv.kept; echo nameserver {address} > /etc/resolv.conf"
    return inside(host, change), inside(host, "cat /root/resolv.kept > /etc/resolv.conf")


def second_address(verb: str) -> str:
    """The same address on two hosts, added or deleted."""
    return " && ".join(inside(host, f"ip addr {verb} {{net}}.200/24 dev eth0") for host in ("h1", "h3"))


def copied(path: str, source: str, target: str) -> str:
    """A file of a host, on another one."""
    take = f"docker exec {{{source}}} cat {path}"
    return f"{take} | docker exec -i {{{target}}} sh -c 'cat > {path}'"


SLOW_NAMES, SLOW_RESOLVER = program_of("h2", "slow_names.py", "2"), resolver("h2", "127.0.0.1")
PORTS = (
    Defect(8, "mtu", inside("h2", "ip link set eth0 mtu 1400"), inside("h2", "ip link set eth0 mtu 1500"), "mtu",
           ("h2",), says="1400"),
    Defect(9, "mtu black hole", *rule("h1", "OUTPUT -p udp -d {a2} -m length --length 1450:65535 -j DROP"), "path mtu",
           ("h1", "h2"), ways=(("h1", "h2"),), says="1500 bytes do not"),
    Defect(10, "ports dropped one way", *rule("h1", "INPUT -s {a2} -p tcp --dport 29500:29999 -j DROP"), "ports",
           ("h1", "h2"), ways=(("h2", "h1"),), says="timeout on 12 tested ports from 29500 to 29999"),
    Defect(11, "ports refused one way", *rule("h3", "INPUT -s {a2} -p tcp --dport 29600:29700 -j REJECT "
           "--reject-with tcp-reset"), "ports", ("h2", "h3"), ways=(("h2", "h3"),), says="refused on 2 tested ports"),
    Defect(12, "ports dropped from all", *rule("h3", "INPUT -p tcp --syn --dport 1024:65535 -j DROP"), "ports",
           ("h3",), ways=(("h1", "h3"), ("h2", "h3")), says="and ephemeral ports"),
)  # fmt: skip
NAMES = (
    Defect(13, "own name is loopback", *hosts_file("h2", "s/^{a2}/127.0.1.1/"), "own name", ("h2",), "warn",
           "127.0.1.1"),
    Defect(14, "name of a peer is wrong", *hosts_file("h3", "1i {a1} h2"), "names of peers", ("h3",), says="h2 is"),
    Defect(15, "resolver is dead", *resolver("h1", "192.0.2.1"), "name service", ("h1",), "warn", "no answer"),
    Defect(16, "resolver is slow", f"{SLOW_NAMES[0]} && {SLOW_RESOLVER[0]}", f"{SLOW_RESOLVER[1]} && {SLOW_NAMES[1]}",
           "name service", ("h2",), "warn", " for "),
)  # fmt: skip
IDENTITY = (
    Defect(17, "address twice", second_address("add"), second_address("del"), "addresses", ("h1", "h3"),
           says="{net}.200"),
    Defect(18, "machine id twice", inside("h2", "cp /etc/machine-id /root/id.kept") + " && "
           + copied("/etc/machine-id", "h1", "h2"), inside("h2", "cat /root/id.kept > /etc/machine-id"),
           "machine id", ("h1", "h2")),
    Defect(18, "host name twice", inside("h3", "hostname h1"), inside("h3", "hostname h3"), "host name",
           ("h1", "h3")),
    Defect(18, "host key twice", inside("h3", "mkdir /root/kept; cp -p /etc/ssh/*.pub /root/kept/") + " && "
           + copied("/etc/ssh/ssh_host_ed25519_key.pub", "h2", "h3"),
           inside("h3", "cp -p /root/kept/*.pub /etc/ssh/; rm -r /root/kept"), "ssh host keys", ("h2", "h3")),
)  # fmt: skip
ROUTES = (
    Defect(20, "route by another network", inside("h2", "ip link add br-other type bridge && ip link set br-other up "
           "&& ip addr add 172.30.99.1/24 dev br-other && ip route add {a3}/32 dev br-other"),
           inside("h2", "ip link del br-other"), "routes to peers", ("h2",), says="to h3 by br-other (172.30.99.1)"),
    Defect(21, "second default route", inside("h1", "ip route add default via {net}.1 dev eth0 metric 50"),
           inside("h1", "ip route del default via {net}.1 dev eth0 metric 50"), "default routes", ("h1",), "warn"),
)  # fmt: skip
DEFECTS = (*PORTS, *NAMES, *IDENTITY, *ROUTES)
