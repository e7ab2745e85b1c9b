"""Command line of the surveys of kernels: targets, and a part of the kernels' names."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from xegpu.target.targets import TARGETS


def targets_and_part(description: str, default: Sequence[str]) -> tuple[list[str], str]:
    """Names of targets, and the part of a name that a kernel must have; an unknown target ends the program.

    Args:
        description: of the program, for ``--help``.
        default: the targets where none is named.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} ({' '.join(default)})")
    parser.add_argument("-k", default="", metavar="PART", help="kernels whose names have this part")
    given = parser.parse_args()
    unknown = [name for name in given.targets if name not in TARGETS]
    if unknown:
        parser.error(f"{unknown[0]} is not a target: use {', '.join(TARGETS)}")
    return given.targets or list(default), given.k
