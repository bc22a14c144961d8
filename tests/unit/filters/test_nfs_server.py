"""Computations of role nfs_server: directories that stay, exports missing or taken away, threads, clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from ansible_collections.ddp.play.plugins.filter import nfs_server

ROLE = Path(__file__).parents[3] / "roles" / "nfs_server"
# `ss -Htn state established 'sport = :2049'` of iproute2 6.1
CONNECTED = """\
0      0      10.1.0.5:2049   10.1.0.11:872
0      0      10.1.0.5:2049   10.1.0.12:790
0      0      10.1.0.5:2049   10.1.0.11:911
0      0 [fd00::5]:2049 [fd00::11]:700"""


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ({}, {}),
        ({"owner": "ops"}, {"owner": "ops"}),
        ({"owner": None, "mode": "0770"}, {"mode": "0770"}),
        ({"options": "rw", "group": "hpc"}, {"group": "hpc"}),
    ],
)
def test_only_what_an_export_names_is_set(named: dict[str, Any], given: dict[str, str]) -> None:
    export = {"path": "/srv/data", "clients": ["10.1.0.0/16"], **named}
    assert nfs_server.directories([export]) == [{"path": "/srv/data", "state": "directory", **given}]


@pytest.mark.parametrize(
    ("exported", "missing"),
    [
        ("/srv/data  10.1.0.0/16(rw,wdelay)\n/srv/data  node2.example.com(rw)\n", []),
        ("/srv/data\n\t\t10.1.0.0/16(rw)\n/srv/data  node2(rw)\n", []),
        ("/srv/data  10.1.0.0/16(rw)\n", ["/srv/data to node2"]),
        ("", ["/srv/data to 10.1.0.0/16", "/srv/data to node2"]),
        ("/srv/data/sub  10.1.0.0/16(rw)\n/srv/data  node2(rw)\n", ["/srv/data to 10.1.0.0/16"]),
        ("/srv/data  10.1x0.0/16(rw)\n/srv/data  node2(rw)\n", ["/srv/data to 10.1.0.0/16"]),
    ],
)
def test_exports_that_the_kernel_lacks(exported: str, missing: list[str]) -> None:
    """Output of `exportfs -s`; a long path has its client on the next line."""
    exports = [{"path": "/srv/data", "clients": ["10.1.0.0/16", "node2"]}]
    assert nfs_server.missing(exports, exported) == missing
    assert nfs_server.missing([], exported) == []


# As templates/exports.j2 writes it.
MARK = "# Managed by ddp-play (role nfs_server)\n"
DATA, NODE, MORE = "/srv/data 10.1.0.0/16(rw,sync)\n", "/srv/data node2(rw,sync)\n", "/srv/more node2(ro)\n"
READS = "/srv/data node2(ro,sync)\n"


@pytest.mark.parametrize(
    ("wanted", "there", "taken", "kept"),
    [
        pytest.param(DATA, MARK + DATA, [], DATA, id="nothing"),
        pytest.param(DATA, "", [], DATA, id="no-file"),
        pytest.param(DATA + NODE + MORE, MARK + DATA, [], DATA + NODE + MORE, id="additions"),
        pytest.param(NODE + DATA, MARK + DATA + NODE, [], NODE + DATA, id="order"),
        pytest.param(DATA, MARK + DATA + NODE, ["/srv/data to node2"], DATA + NODE, id="client"),
        pytest.param(MORE, MARK + DATA, ["/srv/data to 10.1.0.0/16"], MORE + DATA, id="path"),
        pytest.param(READS + MORE, NODE, ["/srv/data to node2 (now rw,sync)"], NODE + MORE, id="options"),
        pytest.param(NODE, READS, ["/srv/data to node2 (now ro,sync)"], READS, id="wider-options"),
        pytest.param(DATA, "/srv/data 10.1.0.0/16(rw,sync) \\\n node2(rw,sync) # two\n", ["/srv/data to node2"],
                     DATA + NODE, id="two-clients-of-a-line"),
        pytest.param(NODE, "/srv/data node2\n", ["/srv/data to node2 (now the defaults)"],
                     "/srv/data node2\n", id="no-options"),
        pytest.param(NODE, "/srv/data -rw node3 node4\n", ["/srv/data -rw node3 node4"],
                     NODE + "/srv/data -rw node3 node4\n", id="default-options"),
        pytest.param(NODE, '"/srv/my data" node2(rw)\n', ['"/srv/my data" node2(rw)'],
                     NODE + '"/srv/my data" node2(rw)\n', id="quotes"),
        pytest.param(NODE, "/srv/data\n", ["/srv/data"], NODE + "/srv/data\n", id="everybody"),
    ],
)  # fmt: skip
def test_what_the_exports_file_has_stays_and_what_is_new_is_added(
    wanted: str, there: str, taken: list[str], kept: str
) -> None:
    assert nfs_server.taken(MARK + wanted, there) == taken
    union = nfs_server.kept(MARK + wanted, there)
    assert union == MARK + kept
    assert nfs_server.kept(MARK + wanted, union) == union, "the next run changes nothing"
    assert nfs_server.taken(MARK + wanted, union) == taken


@pytest.mark.parametrize(
    ("conf", "threads"),
    [
        ("", 64),
        ("[nfsd]\n# threads=8\nthreads=8\n", 64),
        ("[nfsd]\nthreads = 256\nvers3=y\n", 256),
        ("[general]\npipefs-directory=/run/rpc_pipefs\n", 64),
        ("[nfsd]\nthreads=many\n", 64),
        ("no section\n", 64),
    ],
)
def test_threads_of_the_site_are_never_lowered(conf: str, threads: int) -> None:
    assert nfs_server.threads(conf, 64) == threads


@pytest.mark.parametrize(
    ("answer", "active", "clients"),
    [
        ({"rc": 0, "stdout": ""}, "active", []),
        ({"rc": 0, "stdout": CONNECTED}, "active", ["10.1.0.11", "10.1.0.12", "[fd00::11]"]),
        ({"rc": 0, "stdout": CONNECTED}, "inactive", []),
        ({"rc": 127, "stdout": ""}, "active", ["unknown clients (ss: exit code 127)"]),
        ({"rc": 124, "stdout": ""}, "active", ["unknown clients (ss: exit code 124)"]),
        ({"rc": 127, "stdout": ""}, "", []),
    ],
)
def test_connected_clients(answer: dict[str, Any], active: str, clients: list[str]) -> None:
    """An answer that does not come counts as clients."""
    assert nfs_server.clients(answer, active) == clients


@pytest.mark.parametrize("off", [False, True])
def test_nfsv3_goes_only_when_asked_by_name(off: bool) -> None:
    text = (ROLE / "templates" / "nfs.conf.j2").read_text()
    names = {"__nfs_server_threads_wanted": 64, "nfs_server_rdma": False}
    rendered = jinja2.Template(text, trim_blocks=True).render(**names, nfs_server_disable_v3=off)
    lines = rendered.splitlines()
    assert ("vers3=n" in lines) == off
    assert {"[nfsd]", "threads=64", "vers4=y", "vers4.2=y"} <= set(lines)
