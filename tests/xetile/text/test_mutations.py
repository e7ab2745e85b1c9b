"""Mutated texts of :mod:`tests.fuzz.mutate`: a result or an XeError each; ``python -m tests.fuzz --text`` has more."""

from __future__ import annotations

import pytest

from tests.fuzz.mutate import outcome


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_some_mutations(first: int) -> None:
    failed = {seed: found for seed in range(first, first + 20) if (found := outcome(seed)).startswith("failed")}
    assert not failed
