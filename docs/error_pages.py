"""MkDocs hook: the pages of the error catalogue, made from ``xetile/errors`` while the site is built.

Pages in ``docs`` link to the catalogue's files where they are in the repository, so that the links work there too; on
the site they lead to the pages made here.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from xetile import errors

SECTION = "Errors"
"""The section of the navigation in ``mkdocs.yml`` that the pages are added to."""


def on_config(config: MkDocsConfig) -> None:
    """Add the pages to the navigation."""
    section = _section(config.nav)
    if section is None:
        raise PluginError(f"the navigation has no section {SECTION}")
    section.extend({area.title: f"errors/{area.name}.md"} for area in errors.areas())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the site."""
    for area in errors.areas():
        files.append(File.generated(config, f"errors/{area.name}.md", content=str(area)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files of the catalogue to its pages."""
    return re.sub(r"\]\(\.\./xetile/errors/", "](errors/", markdown)


def _section(nav: list[Any]) -> list[Any] | None:
    """The entries of :data:`SECTION`, looked for at any depth; None where it is missing."""
    for entry in (entry for entry in nav if isinstance(entry, dict)):
        for title, below in entry.items():
            found = below if title == SECTION else _section(below) if isinstance(below, list) else None
            if found is not None:
                return found
    return None
