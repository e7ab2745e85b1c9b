"""Output files, whose names an author gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

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


def picture_format(path: str | PathLike[str], formats: Collection[str]) -> str:
    """Format of a picture, by the end of its file's name.

    Raises:
        ArgumentError: it is none of ``formats``.
    """
    if (ending := Path(path).suffix.lstrip(".")) not in formats:
        raise ArgumentError("XT7161", f"{path} does not end as an image file",
                            f"choose one of {', '.join(sorted(formats))}")
    return ending
