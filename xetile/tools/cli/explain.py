"""``xetile explain XT1204``: explanation of an error code; without a code, the list of all."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from xetile import errors


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("explain", help="what an error means, by its code",
                                 description="What is behind an error, a program that makes it, and what would work.")
    parser.add_argument("code", nargs="*", help="as a message prints it: XT1204; none lists all")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> None:
    """Print the explanations of the codes, or a line for each error.

    Raises:
        ArgumentError: there is no such code.
    """
    _show("\n".join(str(errors.explanation(code)) for code in arguments.code) or _all_titles())


def _all_titles() -> str:
    """Titles of all explanations, by area."""
    rows = []
    for area in errors.areas():
        rows += [f"# {area.title}", "", *(f"- {section.code} {section.title}" for section in area.explanations), ""]
    return "\n".join(rows)


def _show(text: str) -> None:
    """Render Markdown with rich where that is installed, else print it."""
    if not sys.stdout.isatty() or find_spec("rich") is None:
        print(text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown
    Console().print(Markdown(text))
