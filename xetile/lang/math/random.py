"""``xt.random``: counter-based random numbers, Philox4x32-10.

The generator is that of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
A number is a function of the seed and its own counter alone, so the bits are the same in every execution and for every
tiling.
"""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError
from xetile.frontend.constants import python_number
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import describe_argument
from xetile.lang.creation import scalar_
from xetile.lang.math import bitcast, cos, log, maximum, sin, sqrt, where
from xetile.lang.math.bits import mul_hi

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57  # of words 0 and 2 of the counter
_WEYL = 0x9E3779B9, 0xBB67AE85  # added to the key's words in each round: the golden ratio and sqrt(3) - 1
_ROUNDS = 10
_SCALE = 4.6566127342e-10  # the largest float32 whose product with 2^31 is below 1
_TWO_PI = 6.283185307179586


def philox(seed: Any, c0: Any, c1: Any = 0, c2: Any = 0, c3: Any = 0) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10: four words of random bits (``u32``) of a key and a counter of four words.

    Args:
        seed: the key, 64 bits: a Python integer or a run-time integer.
        c0: lowest word of the counter: integers, a vector or a run-time number; taken modulo 2^32.
        c1, c2, c3: the other words: as ``c0``, or Python integers.

    Raises:
        ElementTypeError: an argument is none of these.
    """
    current("xt.random.philox")
    keys = _key(seed)
    words = [_word_of(c0, "a counter"), *(_word_of(c, "a counter") for c in (c1, c2, c3))]
    like = next((word for kind in (Vector, Scalar) for word in words if isinstance(word, kind)), None)
    if like is None:
        words[0] = scalar_(words[0], dtypes.u32)
        like = words[0]
    # All words have the shape of the widest: a word of zeros is a vector from the first round on anyway.
    words = [word if isinstance(word, type(like)) else (like & 0) | word for word in words]
    w0, w1, w2, w3 = words
    for _ in range(_ROUNDS):
        high0, high2 = mul_hi(w0, _MULTIPLIERS[0]), mul_hi(w2, _MULTIPLIERS[1])
        w0, w1, w2, w3 = (high2 ^ w1 ^ keys[0], w2 * _MULTIPLIERS[1], high0 ^ w3 ^ keys[1], w0 * _MULTIPLIERS[0])
        keys = [_next_key(key, step) for key, step in zip(keys, _WEYL, strict=True)]
    return w0, w1, w2, w3


def randint(seed: Any, offset: Any) -> Any:
    """Random ``u32``, uniform over all of them: the first word of :func:`philox` of ``offset``.

    Args:
        seed: a Python integer or a run-time integer.
        offset: which number of the seed's sequence: integers, a vector or a run-time number.
    """
    return philox(seed, offset)[0]


def rand(seed: Any, offset: Any) -> Any:
    """Random ``f32``, uniform in [0, 1); the same bits in every execution.

    Args:
        seed, offset: as in :func:`randint`.
    """
    return _uniform(randint(seed, offset))


def randn(seed: Any, offset: Any) -> Any:
    """Random ``f32`` of the normal distribution, of mean 0 and variance 1, by Box and Muller's transform.

    Executions agree up to the accuracy of ``xt.log`` and ``xt.cos``.

    Args:
        seed, offset: as in :func:`randint`.
    """
    first, second, *_ = philox(seed, offset)
    return _box_muller(_uniform(first), _uniform(second))[0]


def _uniform(word: Any) -> Any:
    """Words as f32 in [0, 1), by the magnitude of the signed word: exact conversions would round up to 1."""
    signed = bitcast(word, dtypes.i32)
    return where(signed < 0, ~signed, signed).to(dtypes.f32) * _SCALE


def _box_muller(first: Any, second: Any) -> tuple[Any, Any]:
    """Two independent normal numbers of two uniform ones; the logarithm is of 1e-7 or more."""
    radius, angle = sqrt(log(maximum(first, 1.0e-7)) * -2.0), second * _TWO_PI
    return radius * cos(angle), radius * sin(angle)


def _key(seed: Any) -> list[Any]:
    """Two words of a key of 64 bits."""
    low = _word_of(seed, "the seed")
    if isinstance(seed, Vector):
        raise _operand_error("the seed", seed)
    if not isinstance(seed, (Scalar, Vector)):
        return [low, int(python_number(seed)) >> 32 & 0xFFFFFFFF]
    if seed.dtype.kind == "u":
        return [low, (seed >> 32).to(dtypes.u32) if seed.dtype.bits == 64 else 0]
    wide = seed.dtype.bits == 64 and seed.dtype is not dtypes.index
    sign = seed if seed.dtype.bits >= 32 else seed.to(dtypes.i32)  # negative seeds are those of 64 bits
    return [low, (seed >> 32 if wide else sign >> 31).to(dtypes.u32)]


def _next_key(key: Any, step: int) -> Any:
    """Word of the next round's key, modulo 2^32."""
    return key + step if isinstance(key, (Scalar, Vector)) else (key + step) & 0xFFFFFFFF


def _word_of(value: Any, what: str) -> Any:
    """An integer modulo 2^32: a traced ``u32``, or a Python integer."""
    number = python_number(value)
    if isinstance(value, (Scalar, Vector)) and value.dtype.kind in "iux" and value.dtype is not dtypes.i1:
        return value.to(dtypes.u32)
    if type(number) is int:
        return number & 0xFFFFFFFF
    raise _operand_error(what, value)


def _operand_error(what: str, value: Any) -> ElementTypeError:
    """Error for a seed or a counter that is no integer."""
    location = current().location()
    it = f"a {value.describe()}" if isinstance(value, (Scalar, Vector)) else describe_argument(value)
    wanted = "one integer" if what == "the seed" else "integers"
    return ElementTypeError("XT1271", f"{what} of a random number is {it}, and not {wanted}",
                            "pass a run-time integer as the seed, and positions as the offset: "
                            "xt.random.rand(seed, xt.iota((8, 32), 1))", location, notes(location, it=value))
