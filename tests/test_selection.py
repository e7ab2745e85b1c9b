"""The default run: which cases it takes of a test, and that every execution stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

import pytest

from tests.selection import COLLECTED, covering, default_run, parameters


def test_every_value_of_every_parameter_occurs() -> None:
    cases = [{"kind": kind, "execution": execution} for kind in "abcde" for execution in (1, 2, 3) if kind != "c"]
    chosen = [cases[i] for i in covering(cases)]
    assert {case["kind"] for case in chosen} == set("abde")
    assert {case["execution"] for case in chosen} == {1, 2, 3}
    assert len(chosen) == 4  # as many as the longest parameter has values


def test_a_value_that_occurs_once_is_taken() -> None:
    cases = [{"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 2, "m": 2}, {"n": 1, "m": 1}]
    assert covering(cases) == [0, 2]


def test_tests_without_parameters_are_taken() -> None:
    assert covering([{}]) == [0]
    assert covering([]) == []


def _executions(items: Sequence[pytest.Item], of: Callable[[pytest.Item], str]) -> dict[str, set[Hashable]]:
    """The values of the parameters that name executions and targets, for each group of cases."""
    found: defaultdict[str, set[Hashable]] = defaultdict(set)
    for item in items:
        found[of(item)] |= {value for name, value in parameters(item).items()
                            if name in ("place", "where", "target", "device")}
    return found


def test_every_test_runs_in_each_of_its_executions(request: pytest.FixtureRequest) -> None:
    """Of what was collected here: each function that is in the default run, and each file."""
    collected: list[pytest.Item] = request.config.stash[COLLECTED]
    taken, _ = default_run(collected)
    functions = _executions(taken, lambda item: item.nodeid.partition("[")[0])
    assert {name: found for name, found in _executions(collected, lambda item: item.nodeid.partition("[")[0]).items()
            if name in functions} == functions
    assert _executions(collected, lambda item: item.path.name) == _executions(taken, lambda item: item.path.name)
