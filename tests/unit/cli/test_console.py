"""Tables as plain text for files, without colors."""

from __future__ import annotations

from rich.table import Table

from ddp_play.cli import console


def test_a_table_as_text() -> None:
    table = Table("collective", "gloo cpu", "mpi cpu", box=None, pad_edge=False)
    table.add_row("all_reduce avg", "[green]works[/]", "[yellow]refused*[/]")
    rows = [line.split() for line in console.as_text(table).splitlines()]
    assert rows == [["collective", "gloo", "cpu", "mpi", "cpu"], ["all_reduce", "avg", "works", "refused*"]]
