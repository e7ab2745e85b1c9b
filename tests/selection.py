"""Which cases a run takes of a parametrised test: covering arrays of its parameters.

The default run takes few, in which each value of each parameter occurs (strength 1); a parameter that names an
execution is one of them, so that each feature runs in every execution that it is tested in. ``pytest --everything``
takes cases in which each pair of values of two parameters occurs (strength 2): faults of three values at once are
rare. HYPOTHESIS_PROFILE=thorough takes all. ``@pytest.mark.everything`` leaves a test or a set of parameters to
``--everything``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import pytest

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All cases that were collected, also those that are left out."""


def covering(cases: Sequence[Mapping[str, Hashable]], strength: int = 1) -> list[int]:
    """Greedy set cover: positions of cases, in order, that together have every value of every parameter.

    Args:
        cases: the parameters of each case, by name.
        strength: every combination of values of so many parameters, as far as it occurs.
    """
    values = [frozenset(combinations(sorted(case.items(), key=lambda item: item[0]), min(strength, len(case))))
              for case in cases]
    count = Counter(value for case in values for value in case)
    chosen = [i for i, case in enumerate(values) if not cases[i] or any(count[value] == 1 for value in case)]
    missing = set(count).difference(*(values[i] for i in chosen))
    while missing:
        best = max(range(len(values)), key=lambda i: (len(values[i] & missing), -i))
        chosen.append(best)
        missing -= values[best]
    return sorted(chosen)


def covered(items: Sequence[pytest.Item], strength: int = 1) -> set[pytest.Item]:
    """Of each test function the cases in which every combination of values of so many parameters occurs."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    return {cases[i] for cases in functions.values()
            for i in covering([parameters(case) for case in cases], strength)}


def default_run(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The collected tests that the default run takes, and those that it leaves out; both in order."""
    return _split(items, covered([item for item in items if item.get_closest_marker("everything") is None]))


def everything_run(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The collected tests that ``--everything`` takes, among them the default run's, and those that it leaves out."""
    return _split(items, covered(items, 2) | set(default_run(items)[0]))


def _split(items: Sequence[pytest.Item], taken: set[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    return [item for item in items if item in taken], [item for item in items if item not in taken]


def parameters(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case; by their identity where they have no hash."""
    callspec = getattr(item, "callspec", None)
    return {name: _key(value) for name, value in callspec.params.items()} if callspec else {}


def _key(value: Any) -> Hashable:
    if isinstance(value, float):
        return float, str(value)  # 0.0 and -0.0 are equal and two values, NaNs are one
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value  # 1, 1.0 and True are equal, too
