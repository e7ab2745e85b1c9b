"""Flags of the mappings of this process, as Linux lists them."""

from __future__ import annotations

import re
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")


def may_have_huge_pages(pointer: int) -> bool:
    """Whether the mapping at an address is advised to have huge pages; true where the system has none."""
    flags, inside = "", False
    for line in Path("/proc/self/smaps").read_text().splitlines() if HUGE_PAGES.exists() else []:
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= pointer < int(span[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    return " hg" in flags or not HUGE_PAGES.exists()
