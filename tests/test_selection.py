"""Selection of cases in the default run and with ``--everything``: every execution stays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.kernels import DEVICE, EXECUTIONS, Execution
from tests.machine_code import GPUS
from tests.selection import (
    COLLECTED,
    WITHOUT_CODE,
    covering,
    default_run,
    everything_run,
    everything_twins,
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


class Case:
    """A case of a function, as far as a selection looks at it: ``twins`` of it run as machine code."""

    def __init__(self, function: str, execution: Execution, *, twins: bool = True, **more: Any) -> None:
        self.callspec, self.twins = self, twins
        self.params = {"execution": execution, **more}
        name = function if "::" in function else f"test_f.py::{function}"
        self.nodeid = f"tests/{name}[{execution}-{'-'.join(map(str, more.values()))}]"

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == "on_devices_only" and not self.twins else None

    def iter_markers(self, name: str) -> list[Any]:
        return []


def test_code_of_each_kind_is_lowered() -> None:
    """Of each function of a file: a kernel that NumPy runs as it is shows nothing of its target's code."""
    functions = [f"test_{name}" for name in "abcdefgh"]
    taken, _ = default_run([Case(name, each) for name in functions for each in EXECUTIONS])  # type: ignore[misc]
    for name in functions:
        of_it = [item.params["execution"] for item in taken if f":{name}[" in item.nodeid]  # type: ignore[attr-defined]
        assert {each.where for each in of_it} == {each.where for each in EXECUTIONS}
        assert {kind_of_code(each.target) for each in of_it if each.where != "numpy"} == \
            {kind_of_code(target) for target in ("pvc", "dg2", "cpu")}


@pytest.mark.parametrize("twins", [True, False])
def test_executions_are_a_target_and_a_place(twins: bool) -> None:
    """With each value: NumPy, NumPy lowered, kinds of code on the device that are no machine code, each target."""
    functions, kinds = [f"test_{name}" for name in "abcdefgh"], "abcdef"
    cases = [Case(function, each, twins=twins, kind=kind)
             for function in functions for kind in kinds for each in EXECUTIONS]
    taken, _ = everything_run(cases)  # type: ignore[arg-type]
    of: defaultdict[str, dict[str, set[Execution]]] = defaultdict(lambda: {kind: set() for kind in kinds})
    for case in taken:
        given = case.params  # type: ignore[attr-defined]
        of[case.nodeid.partition("[")[0].partition("::")[2]][given["kind"]].add(given["execution"])
    for function in functions:
        assert set().union(*of[function].values()) == {*EXECUTIONS}
        for executions in of[function].values():
            assert {each.where for each in executions} == {each.where for each in EXECUTIONS}
            assert {each.target for each in executions if each.where != "numpy"} == {"pvc", "bmg", "dg2", "cpu"}
            on_device = {each.target for each in executions if each in DEVICE}
            assert on_device >= ({"dg2", "cpu"} if twins else {"pvc", "dg2", "cpu"})
    assert len(taken) <= len(cases) * (0.72 if twins else 0.77)


def test_values_of_tests_of_passes_are_lowered() -> None:
    """In other tests the cheapest cases are those of NumPy as it is, in which no pass runs."""
    for folder, where in (("xetile/passes", "numpy:xegpu"), ("xetile/lang", "numpy")):
        cases = [Case(f"{folder}/test_f.py::test_a", each, kind=kind) for kind in range(40) for each in EXECUTIONS]
        taken, _ = default_run(cases)  # type: ignore[arg-type]
        places = [case.params["execution"].where for case in taken]  # type: ignore[attr-defined]
        assert places.count(where) > 30
        assert {*places} == {each.where for each in EXECUTIONS}


def test_machine_code_is_a_place_of_each_gpu() -> None:
    """Where a test names it: with each value, of each GPU, whose text and instructions are its own."""
    executions = [*EXECUTIONS, *(Execution(f"machine:{gpu}", gpu) for gpu in GPUS)]
    for twins in (True, False):
        cases = [Case("test_a", each, twins=twins, kind=kind) for kind in "abcdef" for each in executions]
        taken, _ = everything_run(cases)  # type: ignore[arg-type]
        found = {(case.params["kind"], case.params["execution"].where) for case in taken}  # type: ignore[attr-defined]
        assert found >= {(kind, f"machine:{gpu}") for kind in "abcdef" for gpu in GPUS}


class Twin:
    """The twin of a case, as far as a selection looks at it."""

    def __init__(self, kind: str, number: int, gpu: str) -> None:
        self.callspec, self.gpu = self, gpu
        self.params = {"kind": kind, "number": number}
        self.nodeid = f"tests/test_f.py::test_f[{kind}-{number}-machine:{gpu}]"


@pytest.mark.parametrize("numbers", [1, 2, 3, 4])
def test_twins_of_both_gpus(numbers: int) -> None:
    """However many cases lie between those that are taken, and some have one twin."""
    twins = [Twin(kind, number, gpu) for kind in "abcdef" for number in range(numbers)
             for gpu in (GPUS if kind not in "be" else GPUS[1:])]
    taken: list[Any] = everything_twins(twins)  # type: ignore[arg-type]
    assert [each.params["kind"] for each in taken] == [*"abcdef"]
    assert {each.params["number"] for each in taken} == {*range(numbers)}
    assert [each.gpu for each in taken if each.params["kind"] not in "be"] == [*GPUS, *GPUS]


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
    """Among the cases collected here: each function of the default run, and each file."""
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
    everything, _ = everything_run(collected)
    assert set(taken) <= set(everything)
    assert _values(collected, function, names, pairs=True) == _values(everything, function, names, pairs=True)
