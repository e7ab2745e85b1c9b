"""What the package tells while it works: the logger ``xetile``, silent unless the program or XETILE_LOG asks.

``XETILE_LOG=1`` writes to the standard error what compiled each kernel; a level's name (``DEBUG``, ``WARNING``) chooses
that level. Without the variable the logger does what the program's own logging says.
"""

from __future__ import annotations

import logging
import os

LOGGER = logging.getLogger("xetile")


def start(wanted: str | None = None) -> None:
    """Gives the logger a level and a handler on the standard error, as XETILE_LOG asks.

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
