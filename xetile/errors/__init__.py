"""Error catalogue: an explanation of each error code, in Markdown files by area (``12-values.md``).

The number in a file's name begins the codes that it explains: ``XT12`` codes are in ``12-values.md``. A file is its
title and a section for each code, ``## XT1250 The inner sizes of a product differ``: what is behind the mistake, a
program that makes it, and the message that this program gets. The programs run in the tests, which compare the
messages. ``xetile explain XT1250`` shows a section, the site of the documentation all of them.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from xegpu.support.errors import ArgumentError

_HEADING = re.compile(r"^## (XT\d{4}) (.*)\n", re.MULTILINE)
_MARK = re.compile(r"^<!-- .* -->\n", re.MULTILINE)


@dataclass(frozen=True)
class Explanation:
    """A section of the catalogue.

    Attributes:
        code: the error's code.
        title: the mistake, in a few words.
        line: the line of the heading in its file, from 1.
        text: the section in Markdown, with its heading and the marks that ``docs/update.py`` reads.
    """

    code: str
    title: str
    line: int
    text: str

    def __str__(self) -> str:
        """The section as a page of its own, without the marks."""
        return _MARK.sub("", self.text.removeprefix("#")).strip() + "\n"


@dataclass(frozen=True)
class Area:
    """A file of the catalogue.

    Attributes:
        name: the file's name, without its suffix.
        title: what its errors are about.
        head: its text in front of the first section.
        explanations: its sections, in the file's order.
    """

    name: str
    title: str
    head: str
    explanations: tuple[Explanation, ...]

    @property
    def number(self) -> str:
        """The digits that its codes begin with."""
        return self.name.partition("-")[0]

    def __str__(self) -> str:
        """The file without the marks."""
        return _MARK.sub("", self.head + "".join(section.text for section in self.explanations))


@cache
def areas() -> tuple[Area, ...]:
    """All files of the catalogue, in the order of their numbers."""
    files = {entry.name.removesuffix(".md"): entry for entry in resources.files(__name__).iterdir()
             if entry.name.endswith(".md")}
    return tuple(parse(name, files[name].read_text(encoding="utf-8")) for name in sorted(files))


def parse(name: str, text: str) -> Area:
    """A file of the catalogue, split at the headings of its sections.

    Args:
        name: the file's name, without its suffix.
        text: its content.
    """
    headings = list(_HEADING.finditer(text))
    starts = [heading.start() for heading in headings]
    head, *sections = (text[start:end] for start, end in zip([0, *starts], [*starts, len(text)], strict=True))
    title = head.partition("\n")[0].removeprefix("# ")
    return Area(name, title, head, tuple(
        Explanation(heading[1], heading[2], text.count("\n", 0, heading.start()) + 1, section)
        for heading, section in zip(headings, sections, strict=True)))


@cache
def explanations() -> dict[str, Explanation]:
    """All sections by their codes, in the order of the files."""
    return {section.code: section for area in areas() for section in area.explanations}


def explanation(code: str) -> Explanation:
    """The section of a code.

    Args:
        code: as a message prints it, with or without its brackets, ``XT`` and capital letters.

    Raises:
        ArgumentError: there is no such code.
    """
    wanted = code.strip().strip("[]").upper()
    wanted = wanted if wanted.startswith("XT") else f"XT{wanted}"
    if wanted not in explanations():
        near = difflib.get_close_matches(wanted, explanations(), 1)
        raise ArgumentError("XT8001", f"there is no error {code}",
                            f"did you mean {near[0]}?" if near else "xetile explain lists all of them")
    return explanations()[wanted]
