"""Selection of cases in the default run and with ``--everything``: every execution stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.kernels import EXECUTIONS, Execution
from tests.selection import (
    COLLECTED,
    WITHOUT_CODE,
    covering,
    default_run,
    everything_run,
    kind_of_code,
    parameters,
    values,
)


def test_every_value_of_every_parameter_occurs() -> None:
    cases = [{"kind": kind, "execution": execution} for kind in "abcde" for execution in (1, 2, 3) if kind != "c"]
    chosen = [cases[i] for i in covering(cases)]
    assert {case["kind"] for case in chosen} == set("abde")
    assert {case["execution"] for case in chosen} == {1, 2, 3}
    assert len(chosen) == 4  # as many as the longest parameter has values


def test_a_value_that_occurs_once_is_taken() -> None:
    cases = [{"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 2, "m": 2}, {"n": 1, "m": 1}]
    assert covering(cases) == [0, 2]


def test_every_pair_of_values_of_two_parameters_occurs() -> None:
    cases = [{"kind": kind, "target": target, "execution": execution}
             for kind in "abcd" for target in "xyz" for execution in range(5) if (kind, target) != ("c", "y")]
    chosen = [cases[i] for i in covering(cases, 2)]
    for first, second in (("kind", "target"), ("target", "execution"), ("kind", "execution")):
        assert {(case[first], case[second]) for case in chosen} == {(case[first], case[second]) for case in cases}
    assert len(chosen) < len(cases) / 2
    two = [{"kind": kind, "execution": execution} for kind in "ab" for execution in (1, 2)]
    assert covering(two, 2) == list(range(4))
    assert covering([{"kind": "a"}, {"kind": "b"}, {"kind": "a"}, {}], 2) == [0, 1, 3]


def test_equal_values_of_different_types_are_different() -> None:
    class Item:
        def __init__(self, value: Any) -> None:
            self.callspec = self
            self.params = {"value": value}

    values = (1, 1.0, True, 0.0, -0.0, False, float("nan"), float("nan"), [1], [1])
    assert len({parameters(Item(value))["value"] for value in values}) == 9  # type: ignore[arg-type]


def test_the_cheapest_of_cases_with_as_many_new_values_is_taken() -> None:
    cases = [{"kind": kind, "where": where} for kind in "abc" for where in (1, 2)]
    chosen = [cases[i] for i in covering(cases, costs=[case["where"] for case in cases])]
    assert sorted(case["where"] for case in chosen) == [1, 1, 2]


def test_code_of_each_kind_is_lowered() -> None:
    """Of each function of a file: a kernel that NumPy runs as it is shows nothing of its target's code."""
    class Item:
        def __init__(self, function: str, execution: Execution) -> None:
            self.callspec, self.nodeid = self, f"tests/test_f.py::{function}[{execution}]"
            self.params = {"execution": execution}

        def get_closest_marker(self, name: str) -> None:
            return None

    functions = [f"test_{name}" for name in "abcdefgh"]
    taken, _ = default_run([Item(name, each) for name in functions for each in EXECUTIONS])  # type: ignore[misc]
    for name in functions:
        of_it = [item.params["execution"] for item in taken if f":{name}[" in item.nodeid]  # type: ignore[attr-defined]
        assert {each.where for each in of_it} == {each.where for each in EXECUTIONS}
        assert {kind_of_code(each.target) for each in of_it if each.where != "numpy"} == \
            {kind_of_code(target) for target in ("pvc", "dg2", "cpu")}


def test_tests_without_parameters_are_taken() -> None:
    assert covering([{}]) == [0]
    assert covering([]) == []


def _values(items: Sequence[pytest.Item], of: Callable[[pytest.Item], str], names: Sequence[str], *,
            pairs: bool) -> dict[str, set[Any]]:
    """The values of the parameters with these names, by group of cases; executions as pairs, or their two halves."""
    found: defaultdict[str, set[Any]] = defaultdict(set)
    for item in items:
        for name, value in values(item).items():
            if name in names and isinstance(value, Execution):
                both = value.where, value.target if pairs else kind_of_code(value.target)
                found[of(item)] |= {both} if pairs else {*both[:1 if value.where in WITHOUT_CODE else 2]}
            elif name in names:
                found[of(item)].add(kind_of_code(value))
    return found


def test_every_feature_runs_in_each_of_its_executions(request: pytest.FixtureRequest) -> None:
    """Of what was collected here: each function that is in the default run, and each file."""
    def function(item: pytest.Item) -> str:
        return item.nodeid.partition("[")[0]

    def file(item: pytest.Item) -> str:
        return item.nodeid.partition("::")[0]

    collected: list[pytest.Item] = request.config.stash[COLLECTED]
    taken, _ = default_run(collected)
    names = ("execution", "where", "device", "target")
    of_all, of_taken = (_values(items, function, names, pairs=False) for items in (collected, taken))
    assert {name: of_all[name] for name in of_taken} == of_taken
    of_all, of_taken = (_values(items, file, names[:3], pairs=True) for items in (collected, taken))
    assert of_all == of_taken
    assert set(taken) <= set(everything_run(collected)[0])
