"""Commands that make and mend defects, as they are written in the tables."""

from __future__ import annotations

import subprocess

from ddp_play.checks.fleet import FULL
from ddp_play.checks.self_test.defect import (
    Defect,
    Wanted,
    every,
    filled,
    hosts_file,
    inside,
    limit,
    program_of,
    rule,
    unit,
)

VALUES = {"h1": "lab-h1", "h2": "lab-h2", "a1": "10.0.0.1", "net": "10.0.0", "files": "/code"}


def test_names_and_addresses_are_filled_in_and_other_braces_stay() -> None:
    assert filled("ping {a1}; echo ${HOME} {net}.9", VALUES) == "ping 10.0.0.1; echo ${HOME} 10.0.0.9"
    assert filled("nothing", VALUES) == "nothing"


def test_a_command_runs_on_its_host() -> None:
    assert filled(inside("h2", "ip link"), VALUES) == "docker exec lab-h2 sh -c 'ip link'"
    assert filled(every({"h1": "a", "h2": "b"}), VALUES) == (
        "docker exec lab-h1 sh -c 'a' && docker exec lab-h2 sh -c 'b'"
    )
    assert every((("h1", "a"),)) == inside("h1", "a")


def test_what_is_added_is_taken_back() -> None:
    assert rule("h1", "INPUT -j DROP") == (inside("h1", "iptables -A INPUT -j DROP"),
                                           inside("h1", "iptables -D INPUT -j DROP"))  # fmt: skip
    change, back = hosts_file("h1", "s/a/b/")
    assert "/root/hosts.kept" in change
    assert "/root/hosts.kept > /etc/hosts" in back
    assert limit("h1", "nofile 256")[1] == inside("h1", "rm /etc/security/limits.d/zz-defect.conf")
    assert unit("h1", "pass")[1] == inside("h1", "systemctl stop defect")
    start, end = program_of("h1", "slow_names.py", "3")
    assert "< {files}/slow_names.py && " in start
    assert "rm -f /run/slow_names.py" in end


def test_the_commands_are_shell() -> None:
    for command in (*hosts_file("h1", "1i x y"), *unit("h1", "print(1)"), *program_of("h1", "a.py", "1")):
        subprocess.run(["sh", "-n", "-c", filled(command, VALUES)], check=True)


def test_a_defect_has_the_findings_and_hosts_of_its_level() -> None:
    more = Wanted("ports", ("h1",))
    one = Defect(1, "slow", "a", "b", "network", ("h1",), says="rate", level=FULL, more=(more,))
    assert one.wanted == (Wanted("network", ("h1",), "fail", "rate"), more)
    assert one.hosts == ("h1", "h2", "h3", "h4")
    assert str(one) == "slow"
    nothing = Defect(1, "none", "a", "b")
    assert (nothing.wanted, nothing.hosts) == ((), ("h1", "h2", "h3"))
