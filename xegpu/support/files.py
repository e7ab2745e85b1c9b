"""Files that an author names for results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

from xegpu.support.errors import ArgumentError


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """Context in which a file is written.

    Raises:
        ArgumentError: the operating system refuses.
    """
    try:
        yield
    except OSError as error:
        raise ArgumentError("XT8002", f"{path} cannot be written: {error.strerror}",
                            "name a file in a folder that is there") from None
