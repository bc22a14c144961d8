"""Decision of role nfs_client: own exports, mounts that cannot work, pending mounts, failed probes."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import nfs_client

OPTIONS = [
    "vers=4.2",
    "hard",
    "nconnect=8",
    "noatime",
    "nosuid",
    "nodev",
    "_netdev",
    "nofail",
    "x-systemd.automount",
    "x-systemd.mount-timeout=30s",
    "x-systemd.after=network-online.target",
]
# What version 0.1.0 wrote.
EARLIER = [option for option in OPTIONS if option not in OPTIONS[7:10]]
DATA = {"server": "nfs1", "path": "/srv/data", "mountpoint": "/data"}
SCRATCH = {"server": "nfs1", "path": "/srv/scratch", "mountpoint": "/scratch", "options": ["vers=4.2", "soft"]}
# `findmnt --json --types nfs,nfs4` of util-linux 2.38
REPORTED = "rw,nosuid,nodev,noatime,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp,nconnect=8,addr=10.1.0.5"
AHOSTS = "10.1.0.5        STREAM nfs1\n10.1.0.5        DGRAM\nfd00::5         STREAM\n"
LINE = f"nfs1:/srv/data /data nfs {','.join(OPTIONS)} 0 0\n"
NOTHING: dict[str, Any] = {
    "own": [],
    "loops": [],
    "wanted": [DATA],
    "ours": [],
    "free": [],
    "unresolved": [],
    "occupied": [],
    "mounted": [],
    "not_mounted": [],
    "not_in_fstab": [],
    "replaced": [],
    "pending": [],
    "silent": [],
}

# The decision of a host whose own address the server's name has.
ITSELF = {"own": [DATA], "loops": ["/data"], "wanted": []}


def answer(stdout: str = "", rc: int = 0) -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": ""}


def mounted(target: str = "/data", source: str = "nfs1:/srv/data", options: str = REPORTED) -> dict[str, Any]:
    return answer(json.dumps({"filesystems": [{"target": target, "source": source, "options": options}]}))


def state(fstab: str = LINE, **commands: dict[str, Any]) -> dict[str, Any]:
    """State of a host that has mounted /data. commands: by name, with __ for a space and a slash, _ for a space."""
    given = {name.replace("__", " /").replace("_", " "): value for name, value in commands.items()}
    found = {
        "addresses": answer("10.1.0.11 fd00::11 "),
        "mounted": mounted(),
        "server nfs1": answer(AHOSTS),
        "content /data": answer("/data/train"),
        "probe /data": answer(),
        "write /data": answer(),
        **given,
    }
    return {"commands": found, "files": {"/etc/fstab": {"type": "file", "content": "# static\n" + fstab}}}


def test_no_mounts_give_an_empty_decision() -> None:
    assert nfs_client.decide(state(), [], OPTIONS, "") == {**NOTHING, "wanted": []}


@pytest.mark.parametrize(
    ("host", "changed"),
    [
        (state(), {}),
        (
            state(mounted=answer(rc=1), content__data=answer()),
            {"free": [DATA], "not_mounted": [DATA], "pending": [DATA]},
        ),
        (
            state(mounted=answer(rc=1)),
            {"free": [DATA], "not_mounted": [DATA], "pending": [DATA], "occupied": ["/data"]},
        ),
        (
            state(mounted=mounted(source="old:/srv/data")),
            {"not_mounted": [DATA], "replaced": [DATA], "pending": [DATA]},
        ),
        (
            state(mounted=mounted(options=REPORTED.replace("nconnect=8", "nconnect=4"))),
            {"not_mounted": [DATA], "replaced": [DATA], "pending": [DATA]},
        ),
        (state(fstab=""), {"not_in_fstab": [DATA], "pending": [DATA]}),
        (state(fstab=LINE.replace("nconnect=8,", "")), {"not_in_fstab": [DATA], "pending": [DATA]}),
        (state(fstab=LINE.replace(" 0 0", " 0 2")), {"not_in_fstab": [DATA], "pending": [DATA]}),
        (state(fstab="#" + LINE), {"not_in_fstab": [DATA], "pending": [DATA]}),
        (
            state(fstab="", mounted=mounted("/other")),
            {"free": [DATA], "not_mounted": [DATA], "not_in_fstab": [DATA], "pending": [DATA], "occupied": ["/data"]},
        ),
        (state(server_nfs1=answer(rc=2)), {"unresolved": ["nfs1"]}),
        (state(addresses=answer("10.1.0.5 ")), ITSELF),
        (state(server_nfs1=answer("127.0.1.1 STREAM nfs1\n")), ITSELF),
        (state(probe__data=answer(rc=124)), {"silent": ["probe /data"]}),
        (state(write__data=answer(rc=1)), {"silent": ["write /data"]}),
    ],
)
def test_decision(host: dict[str, Any], changed: dict[str, Any]) -> None:
    assert nfs_client.decide(host, [DATA], OPTIONS, "trainer") == {**NOTHING, **changed}


def test_an_export_under_its_own_path_is_no_loop() -> None:
    same = {"server": "nfs1", "path": "/data", "mountpoint": "/data"}
    found = nfs_client.decide(state(addresses=answer("10.1.0.5 ")), [same], OPTIONS, "")
    assert (found["own"], found["loops"], found["wanted"]) == ([same], [], [])


def test_options_of_a_mount_replace_the_default() -> None:
    host = state(
        fstab="nfs1:/srv/scratch /scratch nfs vers=4.2,soft 0 0\n",
        mounted=mounted("/scratch", "nfs1:/srv/scratch", "rw,vers=4.2,soft"),
        content__scratch=answer(),
        probe__scratch=answer(),
    )
    assert nfs_client.decide(host, [SCRATCH, SCRATCH], OPTIONS, "")["wanted"] == [SCRATCH]
    assert nfs_client.decide(host, [SCRATCH, SCRATCH], OPTIONS, "")["pending"] == []


@pytest.mark.parametrize(
    ("writer", "probes"),
    [
        ("", {"probe /data": ["stat", "--file-system", "/data"]}),
        (
            "trainer",
            {
                "probe /data": ["stat", "--file-system", "/data"],
                "write /data": ["runuser", "-u", "trainer", "--", "test", "-w", "/data"],
            },
        ),
    ],
)
def test_probes(writer: str, probes: dict[str, list[str]]) -> None:
    assert nfs_client.probes([DATA], writer) == probes
    assert nfs_client.probes([], writer) == {}


def test_a_line_with_the_options_of_an_earlier_version_is_changed_and_nothing_is_mounted() -> None:
    line = nfs_client.fstab_line(DATA, EARLIER)
    assert line.endswith("nodev,_netdev,x-systemd.after=network-online.target 0 0")
    found = nfs_client.decide(state(fstab=line + "\n"), [DATA], OPTIONS, "")
    assert (found["not_in_fstab"], found["not_mounted"], found["replaced"]) == ([DATA], [], [])


def test_lines() -> None:
    assert nfs_client.fstab_lines([], OPTIONS) == []
    assert nfs_client.fstab_lines([DATA, SCRATCH], OPTIONS) == [
        {"mountpoint": "/data", "line": LINE.rstrip()},
        {"mountpoint": "/scratch", "line": "nfs1:/srv/scratch /scratch nfs vers=4.2,soft 0 0"},
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "-.mount"),
        ("/data", "data.mount"),
        ("/srv/ddp/", "srv-ddp.mount"),
        ("//a//b-c", r"a-b\x2dc.mount"),
        ("/.hidden/.b c", r"\x2ehidden-.b\x20c.mount"),
        ("/gr\u00f6n", r"gr\xc3\xb6n.mount"),
    ],
)
def test_unit_names_are_those_of_systemd(path: str, name: str) -> None:
    assert nfs_client.unit_name(path, "mount") == name
    if escape := shutil.which("systemd-escape"):
        made = subprocess.run([escape, "--path", "--suffix=mount", path], capture_output=True, text=True, check=True)
        assert made.stdout.strip() == name


def test_only_mounts_at_first_use_get_a_drop_in() -> None:
    (file,) = nfs_client.drop_ins([DATA, SCRATCH], OPTIONS)
    assert file["path"] == "/etc/systemd/system/data.mount.d/ddp-play.conf"
    assert "[Unit]\nStartLimitIntervalSec=0\n" in file["content"]
    assert nfs_client.drop_ins([DATA], EARLIER) == []


def test_automounts_that_are_active() -> None:
    units = {"data.automount": {"active": "active"}, "scratch.automount": {"active": "inactive"}}
    assert nfs_client.active_automounts({"units": units}, [DATA, SCRATCH]) == ["data.automount"]
    assert nfs_client.active_automounts({"units": units}, []) == []


def test_entries_of_files() -> None:
    assert nfs_client.directories([DATA], "absent") == [{"path": "/data", "state": "absent"}]
    assert nfs_client.gone(["/a"]) == [{"path": "/a", "state": "absent"}]
    assert (nfs_client.directories([], "absent"), nfs_client.gone([])) == ([], [])


def test_lookups() -> None:
    find = ["-maxdepth", "1", "-mindepth", "1", "-print", "-quit"]
    assert nfs_client.lookups([]) == {}
    assert nfs_client.lookups([DATA, SCRATCH]) == {
        "server nfs1": ["getent", "ahosts", "nfs1"],
        "content /data": ["find", "/data", *find],
        "content /scratch": ["find", "/scratch", *find],
    }


@pytest.mark.parametrize("mountpoint", ["/mnt/none", "/srv/my-data", "/a b/ü", "/.hidden"])
def test_what_is_left_of_a_mount_that_never_worked_is_found_by_its_unit(mountpoint: str) -> None:
    """Whose mount fstab has is left alone, and so is a file of another role."""
    (drop_in,) = nfs_client.drop_ins([{"server": "s", "path": "/p", "mountpoint": mountpoint}], [nfs_client.AUTOMOUNT])
    found = [drop_in["path"], "/etc/systemd/system/docker.service.d/ddp-play.conf"]
    gone = [{"path": path, "state": "absent"} for path in (drop_in["path"], mountpoint)]
    assert nfs_client.forgotten(found, "# s:/p none\nnfs1:/x /mnt/other nfs rw 0 0\n") == gone
    line = f"s:/p {mountpoint.replace(' ', chr(92) + '040')}/ nfs rw 0 0\n"
    assert nfs_client.forgotten(found, line) == []
    assert nfs_client.forgotten(found, f"#{line}") == gone


OLD_LINE = r"nfs1:/srv/old /old\040data nfs vers=4.2,soft 0 0"
OLD = {"server": "nfs1", "path": "/srv/old", "mountpoint": "/old data", "options": ["vers=4.2", "soft"]}
RECORDED = {"fstab": {"/data": {"line": LINE.strip()}, "/old data": {"line": OLD_LINE}}, "packages": ["nfs-common"]}


def test_the_record_knows_mounts_that_left_the_inventory() -> None:
    assert nfs_client.with_recorded([DATA], {}) == [DATA]
    assert nfs_client.with_recorded([DATA], RECORDED) == [
        {**DATA, "written": LINE.strip()},
        {**OLD, "written": OLD_LINE},
    ]
    assert [mount["path"] for mount in nfs_client.with_recorded([], RECORDED)] == ["/srv/data", "/srv/old"]


def test_a_server_by_its_ipv6_address_is_read_from_its_line() -> None:
    entries = {"fstab": {"/d": {"line": "[fd00::5]:/srv/d /d nfs hard 0 0"}}}
    assert [(row["server"], row["path"]) for row in nfs_client.with_recorded([], entries)] == [("[fd00::5]", "/srv/d")]


@pytest.mark.parametrize("inventory", [[DATA], []], ids=["in the inventory", "not any more"])
@pytest.mark.parametrize(
    ("fstab", "ours"),
    [
        pytest.param(LINE, True, id="as written"),
        pytest.param(LINE.replace("hard", "soft"), False, id="changed by hand"),
        pytest.param(LINE + "nas:/other /data nfs defaults 0 0\n", False, id="another one for the same mount point"),
        pytest.param("", False, id="removed by hand"),
    ],
)
def test_a_mount_is_the_sites_if_its_line_was_changed(inventory: list[Any], fstab: str, ours: bool) -> None:
    recorded = nfs_client.with_recorded(inventory, {"fstab": {"/data": {"line": LINE.strip()}}})
    found = nfs_client.decide(state(fstab), recorded, OPTIONS, "")
    assert found["wanted"] == recorded
    assert found["ours"] == found["mounted"] == found["free"] == (recorded if ours else [])


def test_a_mount_that_the_record_does_not_have_is_the_sites() -> None:
    """Also if its line is the wanted one: the role would have written it, but has not."""
    found = nfs_client.decide(state(), nfs_client.with_recorded([DATA], {}), OPTIONS, "")
    assert found["ours"] == found["mounted"] == found["free"] == []
