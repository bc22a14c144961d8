"""What a page consists of: tags that are nested, attributes, and the text that people read."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = ("meta", "br", "input", "use", "path", "rect")


class PageReader(HTMLParser):
    """Tags with their attributes, and the text outside of style sheet and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.script = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], "all tags are closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag, "tags are nested"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.script += data
        elif "style" not in self._open:
            self.text += f"{data} "


def needs_nothing_else(reader: PageReader) -> None:
    """Nothing of the page is loaded from elsewhere, or runs but its own script."""
    kinds = {tag for tag, _ in reader.tags}
    assert kinds & {"link", "img", "iframe", "form", "object", "base", "embed"} == set()
    for tag, attributes in reader.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes), (tag, attributes)
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), "ids are unique"
    targets = {str(attributes["href"])[1:] for tag, attributes in reader.tags if tag == "a"}
    assert targets <= set(ids)
