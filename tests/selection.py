"""Which cases the default run takes: of a parametrised test few, in which each value of each parameter occurs.

A parameter that names an execution is one of them, so that each feature runs in every execution that it is tested in.
``pytest --everything`` takes all cases; ``@pytest.mark.everything`` leaves a test or a set of parameters to that run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pytest

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All cases that were collected, also those that are left out."""


def covering(cases: Sequence[Mapping[str, Hashable]]) -> list[int]:
    """Greedy set cover: positions of cases, in order, that together have every value of every parameter.

    Args:
        cases: the parameters of each case, by name.
    """
    values = [frozenset(case.items()) for case in cases]
    count = Counter(value for case in values for value in case)
    chosen = [i for i, case in enumerate(values) if not case or any(count[value] == 1 for value in case)]
    missing = set(count).difference(*(values[i] for i in chosen))
    while missing:
        best = max(range(len(values)), key=lambda i: (len(values[i] & missing), -i))
        chosen.append(best)
        missing -= values[best]
    return sorted(chosen)


def default_run(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The collected tests that the default run takes, and those that it leaves out; both in order."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("everything") is None:
            functions[item.nodeid.partition("[")[0]].append(item)
    taken = {cases[i] for cases in functions.values() for i in covering([parameters(case) for case in cases])}
    return [item for item in items if item in taken], [item for item in items if item not in taken]


def parameters(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case; by their identity where they have no hash."""
    callspec = getattr(item, "callspec", None)
    return {name: _key(value) for name, value in callspec.params.items()} if callspec else {}


def _key(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value  # type: ignore[no-any-return]
