"""Logger ``xetile``, silent unless the program's logging or XETILE_LOG enables it.

``XETILE_LOG=1`` logs to standard error which compiler served each kernel; a level's name (``DEBUG``, ``WARNING``)
chooses that level. Without the variable the program's own logging configuration applies.
"""

from __future__ import annotations

import logging
import os

LOGGER = logging.getLogger("xetile")


def start(wanted: str | None = None) -> None:
    """Configure level and standard error handler of the logger from XETILE_LOG.

    Args:
        wanted: ``"1"`` or the name of a level; by default the variable's value. Nothing happens for ``"0"`` and for "".
    """
    wanted = os.environ.get("XETILE_LOG", "") if wanted is None else wanted
    if wanted in ("", "0"):
        return
    level = logging.getLevelNamesMapping().get(wanted.upper(), logging.INFO)
    LOGGER.setLevel(level)
    if not LOGGER.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        LOGGER.addHandler(handler)
        LOGGER.propagate = False


start()
