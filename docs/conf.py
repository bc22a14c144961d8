"""Settings of Sphinx for the documentation; `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ddp_play import __version__  # noqa: E402 - the path above is needed first

project = "ddp-play"
author = "the ddp-play authors"
project_copyright = "the ddp-play authors"
version = release = __version__

extensions = ["myst_parser", "docs.reference_pages"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # they make a dash of the two hyphens of an option
highlight_language = "text"

html_theme = "furo"
html_title = "ddp-play"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fd3a8", "color-brand-content": "#5fd3a8"},
}
