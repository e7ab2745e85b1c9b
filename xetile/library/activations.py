"""Activation functions for epilogues of products."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, Note
from xegpu.support.location import Location
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.math import erf, exp2, fma, maximum, minnum
from xetile.lang.math import tanh as vector_tanh

Activation = Callable[[Any], Any]


def relu(x: Any) -> Any:
    """ReLU: max(x, 0), of any element type."""
    return maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """Logistic function: 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp2(x * -math.log2(math.e)))


def silu(x: Any) -> Any:
    """SiLU: x * sigmoid(x)."""
    return x / (1.0 + exp2(x * -math.log2(math.e)))


def gelu(x: Any) -> Any:
    """GELU: x * Phi(x), by the error function; in a kernel with ``fast_math`` within 3e-5 * |x|."""
    if current("gelu").fast_math:  # a logistic function of a polynomial: that of erf(x / sqrt(2)) (math.ErfOp)
        square = minnum(x * x, 32.0)
        power = fma(fma(square, 0.00091122, -0.10617723), square, -2.30172714)
        return x / (1.0 + exp2(x * power))
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """GELU in its tanh approximation: (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u))."""
    factor = -2.0 * math.sqrt(2.0 / math.pi) * math.log2(math.e)
    return x / (1.0 + exp2(x * fma(x * x, 0.044715 * factor, factor)))


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return vector_tanh(x)


ACTIVATIONS: dict[str, Activation] = {
    "relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "sigmoid": sigmoid, "tanh": tanh,
}


def find_activation(activation: str | Activation | None) -> Activation | None:
    """Activation named by ``activation=``, or the author's function.

    Raises:
        ArgumentError: it is neither a known name nor a function.
    """
    if activation is None:
        return None
    if callable(activation):
        return first_alike(_check_unary(activation))
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]
    near = difflib.get_close_matches(str(activation), ACTIVATIONS, 1)
    raise ArgumentError("XT7004", f"there is no activation {activation!r}",
                        f"{f'did you mean {near[0]!r}? ' if near else ''}use one of {', '.join(ACTIVATIONS)}, or pass "
                        "a function of a vector: activation=lambda x: xt.maximum(x, 0) * x")


def _check_unary(activation: Activation) -> Activation:
    """Check that a function can be called with one vector."""
    try:
        inspect.signature(activation).bind(None)
    except TypeError:
        raise ArgumentError("XT7014", f"the activation {_activation_name(activation)} cannot be called with one vector",
                            "pass a function of one argument: activation=lambda x: xt.maximum(x, 0) * x",
                            notes=_defined(activation)) from None
    except ValueError:  # a function of C, which does not tell
        pass
    return activation


def applied(activation: Activation, x: Any) -> Any:
    """Result of an activation function, checked.

    Raises:
        ArgumentError: it is no vector of the same shape.
    """
    y = activation(x)
    if isinstance(y, Vector) and y.shape == x.shape:
        return y
    result = f"a {y.describe()}" if isinstance(y, Value) else repr(y)[:40]
    raise ArgumentError("XT7015",
                        f"the activation {_activation_name(activation)} takes a {x.describe()} and returns {result}",
                        "return a vector of the same shape, calculated with the language's functions, such as "
                        "xt.maximum(x, 0)", notes=_defined(activation))


def _activation_name(activation: Activation) -> str:
    return getattr(activation, "__name__", repr(activation))


def _defined(activation: Activation) -> list[Note]:
    code = getattr(activation, "__code__", None)
    return [] if code is None else [Note("it is defined here", Location.of_definition(code))]


_ALIKE: dict[Any, Activation] = {}
_MOST = 256


def first_alike(function: Activation) -> Activation:
    """Canonical function among those of equal code and closure, so that a lambda in a loop is compiled once.

    A lambda that is written into a call is another object each time; without this, each call would record and lower its
    kernel anew. Functions that reference mutable state, such as arrays or objects, are compared by identity.
    """
    code = getattr(function, "__code__", None)
    if code is None or any(isinstance(constant, CodeType) for constant in code.co_consts):
        return function
    try:
        reach = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable without a value yet
        return function
    reach += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    reach += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(map(_is_immutable, reach)):
        return function
    if len(_ALIKE) >= _MOST:
        _ALIKE.clear()
    return _ALIKE.setdefault((code, tuple((type(each), repr(each)) for each in reach)), function)


def _is_immutable(value: Any) -> bool:
    """Whether a captured object is immutable, so that equal text means equal value."""
    if value is None or isinstance(value, (bool, int, float, str, DType)):
        return True
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    fixed = isinstance(value, (ModuleType, FunctionType))
    return fixed and name.partition(".")[0] in ("xetile", "xegpu", "math")
