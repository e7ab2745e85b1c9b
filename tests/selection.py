"""Selection of the cases of a parametrised test: covering arrays of its parameters.

The default run takes few, in which each value of each parameter occurs (strength 1). An execution is two values, where
a kernel runs and, but in NumPy as it is, the kind of its target's code: each feature runs everywhere and in each kind,
and each file has all pairs of places and targets, which its features take by turns. Of cases that have as many new
values the cheapest is taken, as NumPy is where nothing is built; of a pass's cases the cheapest that is lowered, as
otherwise the pass does not run. ``pytest --everything`` takes cases in which each pair of values of two parameters
occurs (strength 2): faults of three values at once are rare. There an execution is
two values as well, its target and its place: NumPy, NumPy lowered, a kind of code on the device, or a GPU's machine
code. Code that runs as machine code with each value (machine_code.py) needs no place.
HYPOTHESIS_PROFILE=thorough takes all. ``@pytest.mark.everything`` leaves a test or a set of parameters to
``--everything``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any
from zlib import crc32

import pytest

from tests.machine_code import by_case, has_twins, in_turn
from xegpu.target.targets import TARGETS

COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All cases that were collected, also those that are left out."""


_COSTS = {"numpy": 0, "numpy:program": 1, "numpy:xegpu": 1}
"""Places where kernels run, by the time of a case: as they are, lowered. Elsewhere they are built, too: 2."""
WITHOUT_CODE = ("numpy", "numpy:program")
"""Places where a kernel runs as it is, whatever target it names."""


def covering(cases: Sequence[Mapping[str, Hashable]], strength: int = 1, costs: Sequence[int] = (),
             taken: Collection[int] = ()) -> list[int]:
    """Greedy set cover: positions of cases, in order, that together have every value of every parameter.

    Args:
        cases: the parameters of each case, by name.
        strength: every combination of values of so many parameters, as far as it occurs.
        costs: of each case, of which the cheapest is taken where several have as many new values.
        taken: positions of cases that are taken in any case.
    """
    values = [frozenset(combinations(sorted(case.items(), key=lambda item: item[0]), min(strength, len(case))))
              for case in cases]
    count = Counter(value for case in values for value in case)
    chosen = [i for i, case in enumerate(values)
              if i in taken or not cases[i] or any(count[value] == 1 for value in case)]
    missing = set(count).difference(*(values[i] for i in chosen))
    while missing:
        best = max(range(len(values)), key=lambda i: (len(values[i] & missing), -costs[i] if costs else 0, -i))
        chosen.append(best)
        missing -= values[best]
    return sorted(chosen)


def covered(items: Sequence[pytest.Item], strength: int = 1) -> set[pytest.Item]:
    """Of each test function the cases in which every combination of values of so many parameters occurs."""
    return {cases[i] for cases in _groups(items, "[").values()
            for i in covering([parameters(case) for case in cases], strength)}


def _groups(items: Sequence[pytest.Item], end: str) -> dict[str, list[pytest.Item]]:
    """The cases of each function (their names up to ``[``) or of each file (up to ``::``)."""
    groups: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[item.nodeid.partition(end)[0]].append(item)
    return groups


def default_run(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The collected tests that the default run takes, and those that it leaves out; both in order."""
    candidates = [item for item in items if item.get_closest_marker("everything") is None]
    taken = set[pytest.Item]()
    for file in _groups(candidates, "::").values():
        missing = {pair for case in file for pair in executions(case)}
        for function, cases in _groups(file, "[").items():
            turn = crc32(function.encode()) % len(cases)  # so that functions differ in the pairs that they take
            cases = cases[turn:] + cases[:turn]
            taken |= {cases[i] for i in covering([_halves(case) for case in cases], costs=[*map(_cost, cases)])}
        missing -= {pair for case in file if case in taken for pair in executions(case)}
        for case in file:
            if new := missing.intersection(executions(case)):
                taken.add(case)
                missing -= new
    return _split(items, taken)


def executions(item: pytest.Item) -> list[tuple[str, str]]:
    """Executions of a case, as far as one parameter names both: where it runs, and the target of its code."""
    return [(value.where, value.target) for value in values(item).values() if _is_execution(value)]


def _is_execution(value: Any) -> bool:
    return hasattr(value, "where") and hasattr(value, "target")


def _halves(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case, with where it runs and the kind of code, if there is any, as two."""
    found: dict[str, Hashable] = {}
    for name, value in values(item).items():
        if _is_execution(value):
            found[f"{name}: where"] = value.where
            if value.where not in WITHOUT_CODE:
                found[f"{name}: code"] = kind_of_code(value.target)
        else:
            found[name] = _key(value)
    return found


def _cost(item: pytest.Item) -> int:
    """The time of a case, by its place. Where no pass runs, a case of a pass shows nothing: it is the last choice."""
    shows_nothing = WITHOUT_CODE if "/passes/" in item.nodeid else ()
    return max((3 if where in shows_nothing else _COSTS.get(where, 2) for where, _ in executions(item)), default=0)


def kind_of_code(target: Any) -> Any:
    """A target by its subgroup size, the CPU's code by itself; anything else as it is."""
    known = TARGETS.get(target) if isinstance(target, str) else None
    return target if known is None else ("subgroup of", known.subgroup_size, target == "cpu")


def everything_run(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The collected tests that ``--everything`` takes, among them the default run's, and those that it leaves out.

    Every function runs in each of its executions, and each pair of values of two parameters occurs, of which an
    execution counts as two (:func:`_places`).
    """
    taken = set(default_run(items)[0])
    for cases in _groups(items, "[").values():
        positions = [i for i, case in enumerate(cases) if case in taken]
        positions = covering([_places(case) for case in cases], 2, [*map(_cost, cases)], positions)
        taken |= {cases[i] for i in covering([parameters(case) for case in cases], taken=positions)}
    return _split(items, taken)


def everything_twins(twins: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The twins that ``--everything`` takes: of cases in which each value occurs, for the GPUs in turn.

    The cases are chosen first: of twins that have had their turn, those chosen from a function may all be of one GPU.
    """
    cases = by_case(twins)
    taken = covered([case[0] for case in cases])
    return in_turn([twin for case in cases if case[0] in taken for twin in case])


def _places(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case, with an execution as its target, and the place with the kind of code that runs there.

    In NumPy one target shows what another does, as its kind of code is on the device with the same values. Machine code
    is each GPU's own. Code for which the case has twins needs no place: they run it as machine code.
    """
    found: dict[str, Hashable] = {}
    for name, value in values(item).items():
        if not _is_execution(value):
            found[name] = _key(value)
            continue
        if value.where not in WITHOUT_CODE:
            found[f"{name}: target"] = value.target
        if value.where in _COSTS or value.where.startswith("machine:"):
            found[f"{name}: place"] = value.where
        elif not has_twins(item):
            found[f"{name}: place"] = value.where.partition(":")[0], kind_of_code(value.target)
    return found


def _split(items: Sequence[pytest.Item], taken: set[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    return [item for item in items if item in taken], [item for item in items if item not in taken]


def parameters(item: pytest.Item) -> dict[str, Hashable]:
    """The parameters of a case as keys; by their identity where they have no hash."""
    return {name: _key(value) for name, value in values(item).items()}


def values(item: pytest.Item) -> dict[str, Any]:
    """The parameters of a case."""
    callspec = getattr(item, "callspec", None)
    return callspec.params if callspec else {}


def _key(value: Any) -> Hashable:
    if isinstance(value, float):
        return float, str(value)  # 0.0 and -0.0 are equal and two values, NaNs are one
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value  # 1, 1.0 and True are equal, too
