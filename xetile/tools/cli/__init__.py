"""Command line: one module for each command (docs/command_line.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xegpu.support.errors import XeError
from xegpu.support.location import Location
from xetile.tools.cli import cache, devices, emit, explain, opt, report, run, scale, selftest, view

_PACKAGES = Path(__file__).resolve().parent.parent
_COMMANDS = (opt, emit, run, report, scale, view, devices, selftest, cache, explain)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words behind the program's name, by default those of this process.

    Returns:
        the exit code: 0, or 1 after an error, whose text is on standard error. Words that make no command end the
        process with 2, as argparse does.
    """
    parser = argparse.ArgumentParser("xetile", description="Tiled matrix kernels for Intel GPUs: passes, code, runs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    args, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(args, "words") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse takes consecutive words only
        args.words += rest
    try:
        args.command(args)
    except XeError as error:
        print(error_text(error), file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output had enough
        sys.stderr.close()
        return 1
    return 0


def error_text(error: XeError) -> str:
    """Text of an error, ``error[XT9001]: ...``, without the frames of the command line."""
    if error.location is not None and error.location.fixed is None:
        chain = tuple(step for step in error.location.chain if _is_authors(step[0].co_filename))
        error.location = Location(chain) if chain else None
    return f"error[{error.code}]: {str(error).removeprefix(f'[{error.code}] ')}"


def _is_authors(file: str) -> bool:
    """Whether a file is the author's, and not a part of Python or of this package."""
    return not file.startswith("<frozen") and _PACKAGES not in Path(file).resolve().parents and file != sys.argv[0]
