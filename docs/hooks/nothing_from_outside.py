"""The site loads nothing from other hosts: no font, script, style or picture. Links to click on are another matter."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.exceptions import PluginError

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'>\s]+"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|icon|preconnect))[^>]*\bhref=["']?(?:https?:)?//[^"'>\s]+""",
    re.IGNORECASE,
)


def on_post_build(config):
    for page in sorted(Path(config["site_dir"]).rglob("*.html")):
        found = _LOADED.search(page.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{page} must load nothing from other hosts, got {found.group()}")
