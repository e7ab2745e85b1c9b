"""NumPy semantics of ``xegpu.inline``: the author's function, whose results are checked."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from os.path import basename
from typing import Any

import numpy as np

from xegpu.dialect.inline import InlineOp, NumpyFunction
from xegpu.interpreter.interpreter import Interpreter, Semantics, narrow
from xegpu.ir.dtypes import element_type, to_compute, to_storage
from xegpu.support.errors import ArgumentError, XeError
from xegpu.support.location import author_location


def _inline(machine: Interpreter, operation: InlineOp, operands: Sequence[Any]) -> Any:
    """The author's function, of read-only arrays of one shape in the element types of memory."""
    author = operation.numpy.data if operation.numpy is not None else NumpyFunction("no line")
    if author.function is None:
        raise ArgumentError("XT1285", "an inline text that was read from MLIR has no NumPy semantics: text holds only "
                            f"where its function stands, {author.label}",
                            "run it on a device or a machine, as in .on(\"machine:pvc\"); or run the kernel itself, "
                            "not its text", author_location(operation))
    types = [element_type(value.type) for value in operation.inputs]
    arrays = np.broadcast_arrays(*(to_storage(np.asarray(value, dtype.compute), dtype.numpy)
                                   for value, dtype in zip(operands, types, strict=True)))
    for array in arrays:
        array.flags.writeable = False
    try:
        with np.errstate(all="ignore"):
            found = author.function(*arrays)
    except XeError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:2]  # behind this function's own, if it is one of Python
        where = f"{basename(frames[0].filename)}:{frames[0].lineno}" if frames else author.label
        raise ArgumentError("XT1283", f"the NumPy function of an inline text ({where}) raised "
                            f"{type(error).__name__}: {error}", "it is called with arrays of any shape, of all "
                            "instances at once, and computes element by element",
                            author_location(operation)) from error
    return _checked_results(operation, author, found, arrays[0].shape)


def _checked_results(operation: InlineOp, author: NumpyFunction, found: Any, shape: tuple[int, ...]) -> Any:
    """Results of an author's function in their compute types; raises if they are not what the operation gives."""
    types = [element_type(value.type) for value in operation.outputs]
    results = found if len(types) > 1 else (found,)
    if not isinstance(results, tuple) or len(results) != len(types):
        raise _wrong_result(operation, author, f"{len(types)} results", _result_description(found))
    for result, dtype in zip(results, types, strict=True):
        if not isinstance(result, (np.ndarray, np.generic)) or result.dtype != dtype.numpy or \
                result.shape != shape:
            raise _wrong_result(operation, author, f"{dtype.numpy} of shape {shape}", _result_description(result))
    values = [narrow(to_compute(np.asarray(result), dtype)) for result, dtype in zip(results, types, strict=True)]
    return values if len(values) > 1 else values[0]


def _result_description(result: Any) -> str:
    if isinstance(result, (np.ndarray, np.generic)):
        return f"{result.dtype} of shape {result.shape}"
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _wrong_result(operation: InlineOp, author: NumpyFunction, wanted: str, found: str) -> XeError:
    """Error of an author's function whose result is none of the operation's."""
    return ArgumentError("XT1284", f"the NumPy function of an inline text ({author.label}) gives {found}, not {wanted}",
                         "compute element by element, and convert the result: .astype(numpy.float32); several results "
                         "are a tuple", author_location(operation))


SEMANTICS: Semantics = {InlineOp: _inline}
