"""Errors of other ranks: their serialized form, and the error that a receiving rank raises."""

from __future__ import annotations

import re
from typing import TypeAlias

from xegpu.support import errors
from xegpu.support.errors import DeviceError, ShapeError, XeError

Parts: TypeAlias = tuple[str, str, str, str]
"""Class, code, message and help."""


def parts_of(error: BaseException, hint: str = "see the error of that rank") -> Parts:
    """An error as data; the help is that of an error which is none of ours."""
    if isinstance(error, XeError):
        return type(error).__name__, error.code, error.message, error.hint
    return "DeviceError", "XT7211", f"{type(error).__name__}: {error}", hint


def error_of(rank: int, parts: Parts) -> XeError:
    """The error that all ranks raise for that of one rank."""
    name, code, message, hint = parts
    kind: type[XeError] = getattr(errors, name, DeviceError)
    return kind(code, message if re.match(r"rank \d", message) else f"rank {rank}: {message}", hint)


def difference(found: list[dict[str, str]]) -> ShapeError:
    """The error that names the first field in which ranks differ, and who has what."""
    name = next(name for name in found[0] if len({each[name] for each in found}) > 1)
    ranks: dict[str, list[int]] = {}
    for rank, each in enumerate(found):
        ranks.setdefault(each[name], []).append(rank)
    values = "; ".join(f"{value} on rank{'s' * (len(who) > 1)} {_rank_list(who)}" for value, who in ranks.items())
    return ShapeError("XT7210", f"the ranks differ in {name}: {values}", "call with the same options on every rank")


def _rank_list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:4])) + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")
