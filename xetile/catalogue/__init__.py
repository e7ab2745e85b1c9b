"""The catalogue of errors: a page for each code, ``XT1250.md`` in this folder.

A page is its title, what is behind the mistake, a program that makes it, and the message that this program gives. The
programs run in the tests, which hold the messages to what is really said. ``xetile explain XT1250`` shows a page, and
``docs/errors`` has all of them.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from xegpu.support.errors import ArgumentError

_CODE = re.compile(r"XT\d{4}")
_MARK = re.compile(r"<!-- .* -->\n?")
AREAS = {
    "1": ("language", "The language: what is recorded"),
    "2": ("xetile", "MLIR text and XeTile operations"),
    "3": ("xegpu", "XeGPU operations"),
    "4": ("targets", "Targets, registers and code"),
    "5": ("devices", "Devices, compilers and files"),
    "6": ("checks", "What checks and assertions find"),
    "7": ("library", "The library and the tuner"),
    "8": ("commands", "The command line and pages"),
    "9": ("own", "Mistakes of xetile itself"),
}
"""By the first digit of a code: the name of its page in ``docs/errors``, and the page's title."""


@dataclass(frozen=True)
class Page:
    """What the catalogue says of an error.

    Attributes:
        code: its code.
        title: the mistake, in a few words.
        body: what is behind it, in Markdown: an example, its message, and what would work.
    """

    code: str
    title: str
    body: str

    @property
    def area(self) -> str:
        """The first digit of the code, a key of :data:`AREAS`."""
        return self.code[2]

    def __str__(self) -> str:
        return f"# {self.code}: {self.title}\n\n{self.body}"


@cache
def codes() -> tuple[str, ...]:
    """Every code that has a page, in order."""
    names = (entry.name.removesuffix(".md") for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name for name in names if _CODE.fullmatch(name)))


def page(code: str) -> Page:
    """The page of a code.

    Args:
        code: as a message prints it, with or without its brackets, ``XT`` and capital letters.

    Raises:
        ArgumentError: there is no such code.
    """
    known = codes()
    wanted = code.strip().strip("[]").upper()
    wanted = wanted if wanted.startswith("XT") else f"XT{wanted}"
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, 1)
        raise ArgumentError("XT8001", f"there is no error {code}",
                            f"did you mean {near[0]}?" if near else "xetile explain lists all of them")
    text = (resources.files(__name__) / f"{wanted}.md").read_text(encoding="utf-8")
    title, _, body = text.partition("\n")
    return Page(wanted, title.removeprefix("# "), _MARK.sub("", body).strip() + "\n")


def pages() -> list[Page]:
    """All pages, in the order of their codes."""
    return [page(code) for code in codes()]
