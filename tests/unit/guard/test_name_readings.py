"""What names resolve to, and how fast; ids of a machine."""

from __future__ import annotations

import base64
import hashlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import name_readings as module


def test_names_with_and_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", fake({"h1": 0.0}))
    found = module.resolve(["h1", "gone"])
    assert (found["h1"]["addresses"], found["h1"]["error"]) == (["10.0.0.1"], "")
    assert (found["gone"]["addresses"], found["gone"]["error"]) == ([], "Name or service not known")
    assert module.resolve([]) == {}


def test_a_name_that_took_long_once_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.2)
    times = {"h1": 1.0}
    monkeypatch.setattr(socket, "getaddrinfo", fake(times, later=0.0))
    assert module.resolve(["h1"], 20.0)["h1"]["took_s"] < 1.0
    times["h1"] = 0.3
    monkeypatch.setattr(socket, "getaddrinfo", fake(times, later=0.3))
    assert module.resolve(["h1"], 20.0)["h1"]["took_s"] >= 0.2


def test_a_name_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", fake({"h1": 5.0}))
    assert module.resolve(["h1"], 0.1)["h1"] == {"addresses": [], "error": "no answer", "took_s": 0.1}


def fake(times: dict[str, float], later: float | None = None) -> Any:
    """getaddrinfo of the names in `times`, after so many seconds, and `later` from the second time on."""

    def answer(name: bytes, *_: Any, **__: Any) -> list[Any]:
        text = name.decode()
        if text not in times:
            raise socket.gaierror(-2, "Name or service not known")
        time.sleep(times[text])
        times[text] = times[text] if later is None else later
        return [(2, 1, 6, "", ("10.0.0.1", 0))]

    return answer


def test_ids_of_a_machine(tmp_path: Path) -> None:
    key = b"public"
    for path, content in {
        "etc/machine-id": "abc\n",
        "etc/ssh/ssh_host_ed25519_key.pub": f"ssh-ed25519 {base64.b64encode(key).decode()} root@h1\n",
        "sys/class/net/eth0/address": "02:00:00:00:00:01\n", "sys/class/net/eth0/type": "1\n",
        "sys/class/net/eth0/addr_assign_type": "0\n",
        "sys/class/net/veth1/address": "02:00:00:00:00:02\n", "sys/class/net/veth1/type": "1\n",
        "sys/class/net/veth1/addr_assign_type": "1\n",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    found = module.identity(str(tmp_path))
    print_of_key = "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    assert (found["machine_id"], found["host_keys"]) == ("abc", [print_of_key])
    assert found["macs"] == {"eth0": "02:00:00:00:00:01"}
    assert found["guids"] == []
