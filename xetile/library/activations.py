"""Activation functions for the end of a product: functions of a vector, written in the language itself."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any

from xegpu.errors import ArgumentError
from xetile.functions import erf, exp2, maximum
from xetile.functions import tanh as vector_tanh

Activation = Callable[[Any], Any]


def relu(x: Any) -> Any:
    """max(x, 0), of any element type."""
    return maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp2(x * -math.log2(math.e)))


def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x / (1.0 + exp2(x * -math.log2(math.e)))


def gelu(x: Any) -> Any:
    """x * Phi(x), with the error function."""
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """GELU with its usual approximation by a hyperbolic tangent."""
    return 0.5 * x * (1.0 + vector_tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return vector_tanh(x)


ACTIVATIONS: dict[str, Activation] = {
    "relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "sigmoid": sigmoid, "tanh": tanh,
}


def find_activation(given: str | Activation | None) -> Activation | None:
    """The function that ``activation=`` names, or the author's own.

    Raises:
        ArgumentError: it is neither a known name nor a function.
    """
    if given is None or callable(given):
        return given
    if isinstance(given, str) and given in ACTIVATIONS:
        return ACTIVATIONS[given]
    near = difflib.get_close_matches(str(given), ACTIVATIONS, 1)
    raise ArgumentError("XT7004", f"there is no activation {given!r}",
                        f"{f'did you mean {near[0]!r}? ' if near else ''}use one of {', '.join(ACTIVATIONS)}, or pass "
                        "a function of a vector: activation=lambda x: xt.maximum(x, 0) * x")
