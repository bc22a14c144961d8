"""State of GPUs from outputs of nvidia-smi: those of an H100, and others made up after its documentation.

Forms of the latter: `nvidia-smi --help-query-gpu`, `--help-query-remapped-rows`, and `nvlink --status` as quoted in
public issues.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.bounded_reading import NotReadableHere
from ddp_play.guard.gpu_states import FIELDS, LISTED, REMAPPED, UNKNOWN_FIELD, nvlinks, query, rows, states
from tests.unit.recorded_h100 import GPU, answer

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "GPU-5c1a2b3c-0000-1111-2222-333344445555", "GPU-6d1a2b3c-0000-1111-2222-333344445555"
STATE = ("0, Enabled, Enabled, Disabled, 700.00, 1980, 96.00.74.00.01, G520.0200.00.05, 16, 16, 0, None, Completed, "
         "Success, Not Active, Not Active, Not Active")  # fmt: skip
LINKS = f"""GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
\t Link 2: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {TWO})
\t Link 0: 26.562 GB/s
"""


class Smi:
    """nvidia-smi of a driver that does not know some fields; `asked`: the arguments of each call."""

    def __init__(self, unknown: tuple[str, ...] = (), output: str = "", broken: str = "", lists: str = "") -> None:
        self.unknown, self.output, self.broken, self.lists = unknown, output, broken, lists
        self.asked: list[list[str]] = []

    def __call__(self, *queries: list[str]) -> list[str]:
        (words,) = queries
        self.asked.append(words)
        if self.broken:
            raise OSError(self.broken)
        if words[0].startswith("--help"):
            return [self.lists]
        fields = words[0].partition("=")[2].split(",")
        for name in fields:
            if name in self.unknown:
                raise OSError(f'Field "{name}" is not a valid field to query.')
        return [self.output]


def test_a_row_has_each_field_that_the_gpu_has() -> None:
    (found,) = rows(f"{ONE}, {STATE}\n", ["index", *FIELDS]).values()
    assert found["power.limit"] == "700.00"
    assert (found["pcie.link.width.current"], found["gpu_recovery_action"]) == ("16", "None")
    assert set(found) == {"index", *FIELDS}
    assert rows(f"{ONE}, [N/A], 5\n", ["mig.mode.current", "index"]) == {ONE: {"index": "5"}}


def test_an_h100_without_nvlink() -> None:
    (found,) = rows(answer("states.csv"), ["index", *FIELDS]).values()
    assert set(FIELDS) - set(found) == {"fabric.state", "fabric.status"}, "it has N/A for these"
    assert (found["persistence_mode"], found["gpu_recovery_action"], found["power.limit"]) == (
        "Enabled",
        "None",
        "700.00",
    )
    assert rows(answer("remapped-rows.csv"), list(REMAPPED)) == {
        GPU: dict(zip(REMAPPED, ("0", "No", "No"), strict=True))
    }


def test_names_that_its_driver_lists_and_does_not_know() -> None:
    assert set(FIELDS) | {"index", "uuid"} <= set(LISTED.findall(answer("help-query-gpu.txt")))
    smi = Smi(("fabric.state",), f"{GPU}, 0", lists=answer("help-query-gpu.txt").replace('"fabric.state"', ""))
    assert query(smi, "--query-gpu=", ("index", "fabric.state"), "uuid") == {GPU: {"index": "0"}}
    assert UNKNOWN_FIELD.search(answer("unknown-field.txt"))


@pytest.mark.parametrize("error", ["[GPU is lost]", "[Unknown Error]", "[GPU requires reset]"])
def test_an_error_in_place_of_a_value_is_told(error: str) -> None:
    assert rows(f"{ONE}, {error}, 5\n", ["gpu_recovery_action", "index"])[ONE]["gpu_recovery_action"] == error


@pytest.mark.parametrize(
    "odd", ["", "No devices were found", f"{ONE}, 1, 2, 3", "Unable to determine the device handle"]
)
def test_an_output_of_another_form_has_no_rows(odd: str) -> None:
    assert rows(odd, ["index"]) == {}


def test_fields_that_the_driver_does_not_know_are_left_out() -> None:
    smi = Smi(unknown=("fabric.state", "gpu_recovery_action"), output=f"{ONE}, 0, Enabled")
    found = query(smi, "--query-gpu=", ("index", "fabric.state", "persistence_mode", "gpu_recovery_action"), "uuid")
    assert found == {ONE: {"index": "0", "persistence_mode": "Enabled"}}
    assert len(smi.asked) == 4, "there is no list, and each answer names one field"
    assert query(Smi(unknown=("one",)), "--query-remapped-rows=", ("one",), "gpu_uuid") == {}


HELP = """Section about persistence mode properties
Retrieve persistence mode
"persistence_mode"
"clocks_event_reasons.hw_slowdown" or "clocks_throttle_reasons.hw_slowdown"
"index"
"""


def test_the_list_of_fields_is_read_once_where_one_is_not_known() -> None:
    unknown = tuple(name for name in FIELDS if name not in ("persistence_mode", "clocks_event_reasons.hw_slowdown"))
    smi = Smi(unknown, output=f"{ONE}, 0, Enabled, Not Active", lists=HELP)
    found = query(smi, "--query-gpu=", ("index", *FIELDS), "uuid")
    assert found == {
        ONE: {"index": "0", "persistence_mode": "Enabled", "clocks_event_reasons.hw_slowdown": "Not Active"}
    }
    assert [words[0].partition("=")[0] for words in smi.asked] == ["--query-gpu", "--help-query-gpu", "--query-gpu"]
    smi = Smi(("remapped_rows.pending",), output=f"{ONE}, 0", lists='"gpu_uuid"\n"remapped_rows.uncorrectable"')
    assert query(smi, "--query-remapped-rows=", REMAPPED, "gpu_uuid") == {ONE: {"remapped_rows.uncorrectable": "0"}}
    assert smi.asked[1] == ["--help-query-remapped-rows"]


def test_a_driver_that_fails_is_an_error_and_not_a_gpu_without_fields() -> None:
    broken = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    with pytest.raises(OSError, match="couldn't communicate"):
        query(Smi(broken=broken), "--query-gpu=", ("index",), "uuid")
    with pytest.raises(OSError, match="not a valid field"):
        query(Smi(broken='Field "other" is not a valid field to query.'), "--query-gpu=", ("index",), "uuid")


def test_links() -> None:
    assert nvlinks(LINKS) == {ONE: {"active": 2, "inactive": 1}, TWO: {"active": 1, "inactive": 0}}
    assert nvlinks("") == {}
    assert nvlinks("\t Link 0: 26.562 GB/s\n") == {}, "of which GPU nobody knows"


def test_all_that_is_known_of_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"""#!/bin/sh
case "$1" in
--query-gpu=*) echo "{ONE}, {STATE}" ;;
--query-remapped-rows=*) echo "{ONE}, 0, No, No" ;;
nvlink) echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: {ONE})"; echo "	 Link 0: 26.562 GB/s" ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (found,) = states().values()
    assert found["remapped_rows.pending"] == "No"
    assert found["nvlinks"] == {"active": 1, "inactive": 0}
    assert found["clocks.max.sm"] == "1980"


def test_a_driver_that_takes_seconds_for_each_process_is_asked_everything_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    there = f"echo x >> {tmp_path}/there; while [ $(wc -l < {tmp_path}/there) -lt 3 ]; do sleep 0.05; done"
    program.write_text(f"""#!/bin/sh
{there}
case "$1" in --query-gpu=*) echo "{ONE}, {STATE}" ;; esac
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("ddp_play.guard.gpus.SMI_S", 15.0)
    assert set(states()) == {ONE}, "each process waits until all three are there"


def test_without_nvidia_smi_it_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.guard.programs.which", lambda _name: None)
    with pytest.raises(NotReadableHere):
        states()
