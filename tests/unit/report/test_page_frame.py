"""The frame of pages: escaping, and a policy that allows nothing but the page's own style and script."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from ddp_play.report.page_frame import environment, rendered


def template(folder: Path, text: str) -> None:
    (folder / "own.html.j2").write_text('{% extends "page.html.j2" %}{% block content %}' + text + "{% endblock %}")


def test_values_are_escaped_and_made_harmless(tmp_path: Path) -> None:
    template(tmp_path, '<p title="{{ text }}">{{ text }}</p>')
    page = rendered(environment(tmp_path), "own.html.j2", text="</p><script>\"'\u202e\x1b")
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;/p&gt;&lt;script&gt;" in page


def test_a_page_without_a_script_allows_none(tmp_path: Path) -> None:
    template(tmp_path, "nothing")
    page = rendered(environment(tmp_path), "own.html.j2")
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in page


def test_the_policy_allows_the_script_of_the_page_and_no_other(tmp_path: Path) -> None:
    template(tmp_path, "nothing")
    page = rendered(environment(tmp_path), "own.html.j2", script="report.js")
    script = re.search("<script>(.*?)</script>", page, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert page.count("<script") == 1


def test_an_unknown_value_is_an_error(tmp_path: Path) -> None:
    template(tmp_path, "{{ absent }}")
    with pytest.raises(UndefinedError):
        rendered(environment(tmp_path), "own.html.j2")
