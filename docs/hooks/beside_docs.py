"""Pages link to `../results/…` and `../examples/…`, which stand beside docs/: the site takes both in."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[2]
FOLDERS = ("results", "examples")


def on_files(files, config):
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).iterdir()):
            if path.is_file():
                name = f"{folder}/{path.name}"
                files.append(File.generated(config, name, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown, page, config, files):
    """One step up less: in the site the folders stand among the pages."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(rf"\]\({up}\.\./({'|'.join(FOLDERS)})/", rf"]({up}\1/", markdown)
    return re.sub(r"\]\(\.\./docs/", "](../", markdown) if page.file.src_uri.startswith(FOLDERS) else markdown
