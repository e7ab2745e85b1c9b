"""Agreement of all ranks before anything is sent: the same options, and no error on any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from xegpu.support import errors
from xegpu.support.errors import DeviceError, ShapeError, XeError
from xetile.distributed.transport import Transport


def agree(transport: Transport, fields: Mapping[str, object], trouble: Exception | None = None,
          timeout: float | None = None) -> None:
    """Check that all ranks have the same fields and no trouble; a collective call.

    It is one ``Allreduce`` of (fields, -fields, trouble); only where that finds a difference the ranks tell each other
    what they have.

    Args:
        transport: of all ranks.
        fields: what must be equal on all ranks, by name; the same names on all of them. Empty on one with trouble.
        trouble: what went wrong on this rank.
        timeout: seconds to wait for all ranks; None for any time.

    Raises:
        XeError: the trouble of the first rank that has some, on all ranks.
        ShapeError: the fields differ, on all ranks.
    """
    if transport.size == 1:
        if trouble is not None:
            raise trouble
        return
    # Ranks in trouble may not know their fields: one number for all of them, of the same length everywhere.
    number = 0 if trouble is not None else _number(repr(sorted((name, str(value)) for name, value in fields.items())))
    most, least, troubled = transport.maximum([number, -number, int(trouble is not None)], timeout)
    if troubled:
        raise _first_trouble(transport.collect(None if trouble is None else _parts(trouble))) from trouble
    if most != -least:
        raise _difference(transport.collect({name: str(value) for name, value in fields.items()}))


def _number(text: str) -> int:
    """A number of 62 bits that differs where texts do, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 2


def _parts(error: Exception) -> tuple[str, str, str, str]:
    if isinstance(error, XeError):
        return type(error).__name__, error.code, error.message, error.hint
    return "DeviceError", "XT7211", f"{type(error).__name__}: {error}", "no rank has sent anything"


def _first_trouble(found: list[tuple[str, str, str, str] | None]) -> XeError:
    """The error that all ranks raise: that of the first rank that has one."""
    rank, parts = next((rank, parts) for rank, parts in enumerate(found) if parts is not None)
    name, code, message, hint = parts
    kind: type[XeError] = getattr(errors, name, DeviceError)
    return kind(code, f"rank {rank}: {message}", hint)


def _difference(found: list[dict[str, str]]) -> ShapeError:
    """The error that names the first field in which ranks differ, and who has what."""
    name = next(name for name in found[0] if len({each[name] for each in found}) > 1)
    ranks: dict[str, list[int]] = {}
    for rank, each in enumerate(found):
        ranks.setdefault(each[name], []).append(rank)
    values = "; ".join(f"{value} on rank{'s' * (len(who) > 1)} {_listed(who)}" for value, who in ranks.items())
    return ShapeError("XT7210", f"the ranks differ in {name}: {values}", "call with the same options on every rank")


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:4])) + (f" and {len(ranks) - 4} more" if len(ranks) > 4 else "")


def describe(value: Any) -> str:
    """A value as all ranks write it: functions by name, since their addresses differ."""
    return getattr(value, "__qualname__", None) or str(value)
