"""torch of an image: which version, and what is said where there is none for the wanted device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.images import image_packages
from ddp_play.images.image_packages import describe_download, resolve_all
from ddp_play.images.recipe import TESTED_TORCH, Device, ImageRequest
from ddp_play.images.wheels import PipSource, Wheel, device_of, resolve
from ddp_play.lab.progress_listener import SilentListener

from .test_wheels import HERE, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FOR_CUDA = "https://packages.example.org/torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl"
FOR_CPU = "https://packages.example.org/torch-2.14.1%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
CPU, CUDA = ImageRequest(device=Device.CPU), ImageRequest(device=Device.CUDA, offline=True)


class Pip:
    """Answers with a torch for CUDA or for CPUs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[tuple[str, ...]] = []

    def resolve(
        self, wanted: Sequence[str], _source: PipSource, *, constraints: Iterable[str] = ()
    ) -> tuple[Wheel, ...]:
        self.asked.append(tuple(wanted))
        if tuple(wanted) == ("pip",):
            return (Wheel("pip", "26.0", "https://x/pip.whl"),)
        if self.url == FOR_CPU:
            return (Wheel("torch", "2.14.1+cpu", FOR_CPU, size=200_000_000),)
        return (Wheel("torch", "2.14.1", self.url, size=900_000_000), Wheel("nvidia-nccl-cu13", "2", "", size=100_000))


def installed(monkeypatch: pytest.MonkeyPatch, url: str, *, torch: str = "") -> Pip:
    """A controller with this torch, whose pip gets torch from this URL."""
    pip = Pip(url)
    monkeypatch.setattr(image_packages, "resolve", pip.resolve)
    monkeypatch.setattr(image_packages, "_installed", lambda name: torch if name == "torch" else "")
    return pip


@pytest.mark.parametrize(
    ("request_", "torch", "wanted"),
    [
        (CPU, "", f"torch=={TESTED_TORCH}"),
        (CPU, "2.12.1", "torch==2.12.1"),
        (ImageRequest(device=Device.CPU, torch="2.11.0"), "2.12.1", "torch==2.11.0"),
    ],
)
def test_the_version_is_the_requested_one_or_the_controllers_or_the_tested_one(
    monkeypatch: pytest.MonkeyPatch, request_: ImageRequest, torch: str, wanted: str
) -> None:
    """Without torch on the controller, pip's newest was taken, which an index may have for CUDA only."""
    pip = installed(monkeypatch, FOR_CPU, torch=torch)
    resolve_all(request_, PipSource("3.11"), progress=SilentListener())
    assert pip.asked[1][0] == wanted


def test_without_a_torch_for_cpus_the_commands_that_help_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, FOR_CUDA)
    with pytest.raises(HostNotReady, match=r"pip's index offers torch==2\.14\.1 for cuda, with 2 packages") as caught:
        resolve_all(CPU, PipSource("3.11"), progress=SilentListener())
    assert "not for cpu" in caught.value.message
    assert "set PIP_EXTRA_INDEX_URL to an index with builds for cpu" in caught.value.hint
    assert "this one: ddp-play image build --offline --cuda" in caught.value.hint


@pytest.mark.parametrize("request_", [CUDA, ImageRequest(offline=True)])
def test_a_torch_of_the_wanted_kind_is_taken(monkeypatch: pytest.MonkeyPatch, request_: ImageRequest) -> None:
    installed(monkeypatch, FOR_CUDA)
    found = resolve_all(request_, PipSource("3.11"), progress=SilentListener())
    assert found.torch[0].version == "2.14.1"


def test_pip_prefers_the_build_for_cpus_of_an_extra_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the real pip: `torch==9.0` allows 9.0+cpu, which is the newer one of the two."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv(
        "PIP_INDEX_URL", index(tmp_path / "usual", ("torch", "9.0", "nvidia-nccl"), ("nvidia_nccl", "1"))
    )
    extra = index(tmp_path / "cpu", ("torch", "9.0+cpu"))
    wanted = ("torch==9.0",)
    usual = resolve(wanted, PipSource(HERE))
    assert device_of(usual) is Device.CUDA
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", extra)
    found = resolve(wanted, PipSource(HERE))
    assert [wheel.pin for wheel in found] == ["torch==9.0+cpu"]


def index(directory: Path, *wheels: tuple[str, ...]) -> str:
    """URL of a package index of files with these wheels."""
    for name, version, *requires in wheels:
        project = directory / name.replace("_", "-")
        project.mkdir(parents=True)
        wheel = make_wheel(project, name, version, *requires)
        (project / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>')
    return directory.as_uri()


def test_the_size_of_what_is_downloaded_is_told() -> None:
    torch = Wheel("torch", "2.13.0+cpu", FOR_CPU, size=200_000_000)
    numpy = Wheel("numpy", "2.2.6", "", size=20_000_000)
    assert describe_download("torch", [torch, numpy], [numpy]) == (
        "torch: 2 packages of 220.0 MB (torch 2.13.0+cpu, the build for cpu); 20.0 MB to download"
    )
    assert describe_download("torch", [torch], []).endswith("all of it is here")
