"""Files where the user wants them: the kernel's own refusals, in directories that take no files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ddp_play.cli.page_file import check_output, writing
from ddp_play.errors import UsageError


def test_a_place_for_a_file(tmp_path: Path) -> None:
    check_output(tmp_path / "page.html")
    with writing(tmp_path / "page.html"):
        (tmp_path / "page.html").write_text("x")
    assert (tmp_path / "page.html").read_text() == "x"


@pytest.mark.parametrize(
    ("name", "says"), [("absent/page.html", "there is no directory"), (".", "is a directory"), ("", "is a directory")]
)
def test_no_place_for_a_file(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_output(tmp_path / name)


def test_the_remedy_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a b", "-x"):
        with pytest.raises(UsageError) as caught:
            check_output(Path(folder) / "page.html")
        subprocess.run(["sh", "-c", caught.value.hint], check=True)
        check_output(Path(folder) / "page.html")


@pytest.mark.parametrize("path", ["/proc/page.html", "/sys/page.html"])
def test_what_the_kernel_refuses_is_no_crash(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be written: "), writing(Path(path)):
        Path(path).write_text("x")
