"""What pip would install: its report, its reasons, and downloads from a directory of wheels."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from ddp_play.bundle.paths import home
from ddp_play.errors import HostNotReady
from ddp_play.images.recipe import Device
from ddp_play.images.wheels import (
    PipSource,
    Wheel,
    device_of,
    download,
    missing_from,
    read_report,
    reason_of,
    resolve,
    with_sizes,
)
from ddp_play.lab.progress_listener import SilentListener

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def make_wheel(directory: Path, name: str, version: str, *requires: str) -> Path:
    """A wheel with one empty module."""
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {row}\n" for row in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_a_requirement_and_what_it_needs_come_from_a_wheelhouse(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.0", "beta<2")
    beta = make_wheel(tmp_path / "wheels", "beta", "1.5")
    make_wheel(tmp_path / "wheels", "beta", "2.0")
    source = PipSource(HERE, str(tmp_path / "wheels"))
    wheels = resolve(["alpha"], source)
    assert {wheel.pin for wheel in wheels} == {"alpha==1.0", "beta==1.5"}
    assert {wheel.name: wheel.size for wheel in wheels}["beta"] == beta.stat().st_size
    files = download(wheels, source, tmp_path / "target", progress=SilentListener())
    assert sorted(path.name for path in files) == ["alpha-1.0-py3-none-any.whl", "beta-1.5-py3-none-any.whl"]
    assert missing_from(tmp_path / "target", wheels) == []


def test_a_state_directory_that_begins_with_wheels_is_the_users_alone(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.0")
    source = PipSource(HERE, str(tmp_path / "wheels"))
    home().rmdir()
    download(resolve(["alpha"], source), source, home() / "wheelhouse" / "python3", progress=SilentListener())
    assert home().stat().st_mode & 0o777 == 0o700


def test_another_python_gets_wheels_too(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.0")
    source = PipSource("3.99", str(tmp_path / "wheels"))
    wheels = resolve(["alpha"], source)
    assert download(wheels, source, tmp_path / "target", progress=SilentListener())[0].is_file()


def test_constraints_decide_and_nothing_is_asked_for_nothing(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(tmp_path / "wheels", "alpha", version)
    source = PipSource(HERE, str(tmp_path / "wheels"))
    assert [wheel.version for wheel in resolve(["alpha"], source)] == ["2.0"]
    assert [wheel.version for wheel in resolve(["alpha"], source, constraints=["alpha==1.0"])] == ["1.0"]
    assert resolve([], source) == ()


def test_a_misspelt_requirement_fails_with_pips_reason(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "alpha", "1.0")
    with pytest.raises(HostNotReady) as caught:
        resolve(["alhpa"], PipSource(HERE, str(tmp_path / "wheels")))
    assert f"pip does not find alhpa for Python {HERE} in {tmp_path / 'wheels'}" in caught.value.message
    assert "No matching distribution found for alhpa" in caught.value.message


def test_a_missing_requirements_file_fails_with_pips_reason(tmp_path: Path) -> None:
    with pytest.raises(HostNotReady, match=r"nowhere\.txt"):
        resolve(["-r", "nowhere.txt"], PipSource(HERE, str(tmp_path)))


def test_pips_report_is_read() -> None:
    rows = [
        {"metadata": {"name": "a", "version": "1"}, "download_info": {"url": "https://i/a-1%2Bcpu-py3-none-any.whl"}},
        {
            "metadata": {"name": "b", "version": "2"},
            "download_info": {"url": "https://g/b", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "is_direct": True,
        },
    ]
    plain, direct = read_report({"install": rows})
    assert (plain.pin, plain.filename) == ("a==1", "a-1+cpu-py3-none-any.whl")
    assert direct.pin == "b @ git+https://g/b@c0ffee"
    assert read_report({"install": []}) == ()


@pytest.mark.parametrize(
    ("pairs", "device"),
    [
        ([("torch", "2.13.0+cpu"), ("numpy", "2")], Device.CPU),
        ([("torch", "2.13.0+cu130")], Device.CUDA),
        ([("torch", "2.13.0"), ("nvidia-cublas-cu12", "12")], Device.CUDA),
        ([("torch", "2.13.0"), ("triton", "3")], Device.CUDA),
        ([("torch", "2.13.0")], Device.CPU),
        ([("numpy", "2")], Device.ANY),
        ([], Device.ANY),
    ],
)
def test_the_kind_of_torch_shows_in_its_version_and_in_what_it_needs(
    pairs: list[tuple[str, str]], device: Device
) -> None:
    assert device_of(Wheel(name, version, "") for name, version in pairs) is device


def test_an_unreachable_file_has_no_size(tmp_path: Path) -> None:
    (wheel,) = with_sizes([Wheel("a", "1", (tmp_path / "a.whl").as_uri())])
    assert wheel.size is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("WARNING: x\nERROR: No matching distribution found for a\n", "  No matching distribution found for a"),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(x)': /simple/a/\n"
            "ERROR: Could not find a version (from versions: none)\n",
            "  its index cannot be reached: NewConnectionError(x)",
        ),
        ("Traceback\nValueError: x", "  Traceback\n  ValueError: x"),
        ("", ""),
    ],
)
def test_pips_reason_is_found_in_its_output(output: str, reason: str) -> None:
    assert reason_of(output) == reason
