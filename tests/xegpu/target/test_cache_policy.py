"""The tables of cache hints: what each target takes, and what it is told instead."""

from __future__ import annotations

from itertools import product

import pytest

from xegpu.target.cache_policy import BY_KIND, POLICIES, Pair
from xegpu.target.targets import TARGETS

_COUNTS = {"pvc": (7, 6, 7), "bmg": (7, 6, 7), "cri": (6, 6, 7), "dg2": (7, 6, 7)}
"""Combinations of loads, prefetches and stores."""


@pytest.mark.parametrize("target", _COUNTS)
def test_every_combination_is_taken_or_has_a_neighbour(target: str) -> None:
    caches = TARGETS[target].caches
    assert caches is not None
    for kind, count in zip(("load", "prefetch", "store"), _COUNTS[target], strict=True):
        taken: dict[Pair, int] = {}
        for pair in product(POLICIES, repeat=2):
            code = caches.code(kind, *pair)
            if code is None:
                assert set(caches.nearest(kind, *pair)) <= set(caches.combinations(kind))
            else:
                assert pair[0] in BY_KIND[kind]
                taken[pair] = code
        assert len(taken) == len(set(taken.values())) == count


@pytest.mark.parametrize(("target", "kind", "l1", "l3", "code"), [
    ("pvc", "load", "cached", None, 4), ("pvc", "load", None, "uncached", 3), ("pvc", "load", None, None, 4),
    ("pvc", "load", "read_invalidate", "cached", 7), ("bmg", "load", "read_invalidate", "cached", None),
    ("bmg", "load", "read_invalidate", None, 7), ("cri", "load", "read_invalidate", None, None),
    ("pvc", "load", "cached", "streaming", None), ("pvc", "store", "write_back", "uncached", None),
    ("pvc", "store", "write_through", None, 4), ("dg2", "store", "streaming", "uncached", 5),
    ("pvc", "prefetch", "read_invalidate", None, None),
])
def test_some_rows(target: str, kind: str, l1: str | None, l3: str | None, code: int | None) -> None:
    caches = TARGETS[target].caches
    assert caches is not None
    assert caches.code(kind, l1, l3) == code
