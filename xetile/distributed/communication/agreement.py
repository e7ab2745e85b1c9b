"""Agreement of all ranks before anything is sent: the same options, and no error on any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from xegpu.support.errors import XeError
from xetile.distributed.communication.remote_errors import Parts, difference, error_of, parts_of
from xetile.distributed.communication.transport import Transport

_NOTHING_SENT = "no rank has sent anything"


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
    number = 0 if trouble is not None else _digest(repr(sorted((name, str(value)) for name, value in fields.items())))
    most, least, troubled = transport.maximum([number, -number, int(trouble is not None)], timeout)
    if troubled:
        mine = None if trouble is None else parts_of(trouble, _NOTHING_SENT)
        raise _first_trouble(transport.collect(mine)) from trouble
    if most != -least:
        raise difference(transport.collect({name: str(value) for name, value in fields.items()}))


def _digest(text: str) -> int:
    """A number of 62 bits that differs where texts do, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 2


def _first_trouble(found: list[Parts | None]) -> XeError:
    """The error that all ranks raise: that of the first rank that has one."""
    return next(error_of(rank, parts) for rank, parts in enumerate(found) if parts is not None)


def describe(value: Any) -> str:
    """A value as all ranks write it: functions by name, since their addresses differ."""
    return getattr(value, "__qualname__", None) or str(value)
