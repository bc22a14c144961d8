"""Sphinx extension that fills pages while the site is built: tables of the reference, and files outside docs/.

A page has a line `<!-- reference: NAME -->` where a table belongs; nothing of what replaces it is stored.
Links to files outside docs/ lead to the page that has the file's text; a file without one is named, not linked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docs import reference_tables as tables
from docs.reference_tables import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

PLACE = re.compile(r"^<!-- reference: ([a-z-]+) -->$", re.MULTILINE)
# A link to a file: no scheme, not only an anchor.
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
# The sentence of a README that says where its variables are: the page has them below.
VARIABLES = re.compile(r"^Variables: .*?[`)]\.(?=\s)\s*", re.MULTILINE)
# File of the repository -> page of the site; the others are named, not linked.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


def site_links(text: str, *, file: str, page: str) -> str:
    """The text of `file` with its links as `page` needs them. Raises FileNotFoundError for a dead one."""

    def target(match: re.Match[str]) -> str:
        label, name, anchor = match[1], match[2], match[3] or ""
        path = ((ROOT / file).parent / name).resolve().relative_to(ROOT)
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{file} links to {name}, which does not exist")
        if path.parts[0] == "roles":
            return f"[{label}]({_up(page)}reference/{_role_page(path.parts[1], anchor)})"
        inside = path.relative_to("docs") if path.parts[0] == "docs" else PAGES.get(str(path))
        return f"[{label}]({_up(page)}{inside}{anchor})" if inside and (ROOT / path).is_file() else label

    return LINK.sub(target, text)


def _role_page(role: str, anchor: str) -> str:
    return f"job.md{anchor}" if role == "ddp_job" else f"roles.md#{role}"


def _up(page: str) -> str:
    return "../" * page.count("/")


def readme(role: str, page: str, *, shift: int) -> str:
    """A role's README below a heading of the page; its headings become deeper ones."""
    file = f"roles/{role}/README.md"
    text = (ROOT / file).read_text(encoding="utf-8").partition("\n")[2]
    text = VARIABLES.sub("", text)
    deeper = re.sub(r"^(#+) (?=[A-Z])", lambda match: f"{match[1]}{'#' * shift} ", text, flags=re.MULTILINE)
    return site_links(deeper, file=file, page=page) + "\n\n"


def roles() -> str:
    """All roles but that of jobs, which has a page of its own."""
    parts = []
    for name in tables.role_names():
        if name != "ddp_job":
            spec = tables.role_spec(name)
            parts += [f"## {name}\n", f"{tables.cell(spec['short_description'])}.\n"]
            parts += [readme(name, "reference/roles.md", shift=1), f"### Variables of {name}\n", tables.variables(name)]
    return "\n".join(parts)


def whole_file(name: str) -> str:
    return site_links((ROOT / name).read_text(encoding="utf-8"), file=name, page=name)


TABLES: dict[str, Callable[[], str]] = {
    "verbs": tables.verbs,
    "roles": roles,
    "job": lambda: readme("ddp_job", "reference/job.md", shift=0) + "## Variables\n\n" + tables.variables("ddp_job"),
    "exit-codes": tables.exit_codes,
    "ends-of-runs": tables.ends_of_runs,
    "rank-environment": tables.rank_environment,
    "remedies": tables.remedies,
    "contributing": lambda: whole_file("CONTRIBUTING.md"),
    "changelog": lambda: whole_file("CHANGELOG.md"),
}


def page_text(text: str, page: str) -> str:
    """A page's text with links for the site and the tables in their places. Raises KeyError for an unknown name."""
    return PLACE.sub(lambda match: TABLES[match[1]](), site_links(text, file=f"docs/{page}", page=page))


def _read(_app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = page_text(source[0], f"{docname}.md")


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    sphinx.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
