"""Machine code as one more execution: each case that runs a GPU's text on the CPU device runs as machine code, too.

The twin of a case is the same function with the same parameters; what it launches on ``"opencl:cpu"`` for a GPU goes to
the simulator of a GPU that takes such code. ``pytest --machine-code`` has all twins, ``pytest --everything`` one of
each case, for the GPUs in turn, and the default run one of each file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import count
from typing import Any

import pytest

from xegpu.target.targets import Target
from xetile.jit.base import BaseKernel

GPUS = ("pvc", "bmg")
MARK = "machine_code"


def twins(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The twins of all cases that have them, for each GPU that takes the text of the case."""
    found: list[pytest.Item] = []
    for item in items:
        if isinstance(item, pytest.Function):
            found += [_twin(item, gpu) for gpu in _gpus_of(item)]
    return found


def has_twins(item: pytest.Item) -> bool:
    """Whether what a case runs on the CPU device runs as machine code, too."""
    return bool(_gpus_of(item))


def _gpus_of(item: pytest.Item) -> Sequence[str]:
    """GPUs for which a case has twins."""
    if not hasattr(item, "callspec") or item.get_closest_marker("on_devices_only") is not None:
        return ()
    marked = (mark.args for mark in item.iter_markers("execution"))
    return _gpus({*_words(item.callspec.params.values()), *_words(marked)})


def chosen(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """One twin of each file, of the GPUs in turn: its first case for the GPU whose turn it is."""
    by_file: dict[str, list[pytest.Item]] = {}
    for case in cases:
        if case.get_closest_marker("everything") is None:
            by_file.setdefault(case.nodeid.partition("::")[0], []).append(case)
    return [next((case for case in group if gpu_of(case) == GPUS[number % len(GPUS)]), group[0])
            for number, group in enumerate(by_file.values())]


def in_turn(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """One twin of each case, of the GPUs in turn."""
    turns = count()  # of cases that have a choice
    return [group[next(turns) % len(group)] if len(group) > 1 else group[0] for group in by_case(cases)]


def by_case(cases: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The twins of each case."""
    found: dict[str, list[pytest.Item]] = {}
    for case in cases:
        found.setdefault(case.nodeid.rpartition("-machine:")[0], []).append(case)
    return [*found.values()]


def gpu_of(item: pytest.Item) -> str | None:
    """The GPU of a twin; None for any other case."""
    mark = item.get_closest_marker(MARK)
    return None if mark is None else str(mark.args[0])


def _words(values: Any) -> Iterator[str]:
    """Strings among parameters: executions, targets, and tuples of them."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _words(value)
        elif hasattr(value, "where") and hasattr(value, "target"):
            yield from _words((value.where, value.target))


def _gpus(words: set[str]) -> Sequence[str]:
    """GPUs that take the text that a case runs on the CPU device."""
    if "opencl:cpu" not in words:
        return ()
    return GPUS if "pvc" in words else tuple(gpu for gpu in GPUS if gpu in words)


def _twin(item: pytest.Function, gpu: str) -> pytest.Function:
    # pytest has no way to add a case to a collected function: its identifiers are those of the parameters.
    callspec = copy(item.callspec)
    object.__setattr__(callspec, "_idlist", [*callspec._idlist, f"machine:{gpu}"])
    twin: pytest.Function = pytest.Function.from_parent(
        item.parent, name=f"{item.originalname}[{callspec.id}]", callspec=callspec, callobj=item.obj,
        fixtureinfo=item._fixtureinfo, originalname=item.originalname)
    twin.add_marker(pytest.mark.machine_code(gpu))
    return twin


def _is_cpu_device(where: Any) -> bool:
    """Whether launches go to the CPU device: its filter string, or a queue of it."""
    device = getattr(where, "sycl_device", None)
    return bool(where == "opencl:cpu" if device is None else device.is_cpu)


def redirected(gpu: str, ran: list[str]) -> Callable[..., Any]:
    """``BaseKernel._bound`` with launches of GPUs' text on the CPU device as machine code.

    Args:
        gpu: the GPU.
        ran: gets the kernels' names.
    """
    bind = BaseKernel._bound

    def instead(self: BaseKernel, where: Any, target: str | Target | None, subgroups: Any) -> Any:
        name = target.name if isinstance(target, Target) else target
        if _is_cpu_device(where) and name in ("pvc", gpu):
            ran.append(self.name)
            where = f"machine:{gpu}"
        return bind(self, where, target, subgroups)

    return instead
