"""Search space of a tuner."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from xegpu.support.errors import ArgumentError
from xetile.jit.kernel import unknown_constant

Configuration = dict[str, Any]
"""Compile-time constants by name."""

Space = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
_BUDGET = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(ms|s|min|)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0}


def configurations(space: Space, constants: Sequence[str], kernel: str) -> list[Configuration]:
    """Configurations of a space, without duplicates.

    Args:
        space: for each constant the values to try, whose combinations are the space; or a list of configurations.
        constants: the kernel's compile-time constants.
        kernel: its name.

    Raises:
        ArgumentError: the space is empty, or names a constant that the kernel has not.
    """
    if isinstance(space, Mapping):
        bad = next((name for name, values in space.items() if isinstance(values, (str, bytes)) or
                    not isinstance(values, Sequence)), None)
        if bad is not None:
            raise ArgumentError("XT7102", f"the space gives {bad} = {space[bad]!r}, which is not a list of values",
                                f"write {bad}=[{space[bad]!r}], and all values to try in it")
        every = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    else:
        listed: list[Any] = [*space] if isinstance(space, Iterable) and not isinstance(space, str) else [space]
        strange = [each for each in listed if not isinstance(each, Mapping)]
        if strange:
            raise ArgumentError("XT7107", f"{strange[0]!r:.60} is not a configuration of {kernel}",
                                'a list holds configurations, each a dict: [{"BM": 64, "BN": 128}, {"BM": 128, "BN": '
                                '64}]; a dict of lists tries all combinations')
        every = [dict(configuration) for configuration in listed]
    if not every:
        raise ArgumentError("XT7103", f"there is nothing to try for {kernel}", "give values for its constants, such as "
                            '{"BM": [128, 256], "BK": [32, 64]}, or a list of configurations')
    unknown = sorted({name for configuration in every for name in configuration} - set(constants))
    if unknown:
        raise unknown_constant(kernel, unknown[0], constants)
    found: list[Configuration] = []
    for configuration in every:
        if configuration not in found:
            found.append(configuration)
    return found


def seconds_of(budget: float | str) -> float:
    """Duration in seconds, of ``"30s"``, ``"500ms"``, ``"2min"`` or a number.

    Raises:
        ArgumentError: it is none, or not positive.
    """
    match = _BUDGET.fullmatch(str(budget))
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if seconds <= 0:
        raise ArgumentError("XT7105",
                            f"budget={budget!r} is not a duration", 'give seconds or a text: budget=30, budget="500ms"')
    return seconds


def as_keywords(configuration: Mapping[str, Any]) -> str:
    """Configuration as the keyword arguments of a call."""
    return ", ".join(f"{name}={value!r}" for name, value in configuration.items()) or "the defaults"
