"""Operators of PyTorch: kernels as custom operators, and a product with derivatives.

Tensors are arguments of kernels and of :mod:`xetile.library` as they are, by DLPack. What is here is for programs that
torch differentiates or compiles: it knows an operator by its schema and by what it does to shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xegpu.support.errors import ArgumentError
from xetile import library
from xetile.compiler.arguments import AtTheCall
from xetile.jit.base import BaseKernel

_NUMBERS = {int: "int", float: "float"}


def register(kernel: BaseKernel, name: str, *, outputs: Sequence[str], numbers: Mapping[str, type] | None = None,
             where: Any = None, **constants: Any) -> Callable[..., None]:
    """Custom operator of torch that launches a kernel; ``torch.compile`` keeps the call.

    The operator takes the grid, a list of integers, and then the kernel's arguments; it returns nothing, and writes the
    outputs in place. It has a fake implementation, so that programs are compiled without running it. Autograd does not
    see through it: outputs carry no gradient.

    Args:
        kernel: the kernel.
        name: the operator's name, ``"library::operator"``.
        outputs: parameters that the kernel writes, all of them.
        numbers: parameters that are numbers, with ``int`` or ``float``; the others are tensors.
        where: as in ``kernel.on(where)``; None lets the tensors decide.
        constants: compile-time constants of each launch.

    Returns:
        the operator, which is ``torch.ops.library.operator`` as well.

    Raises:
        ArgumentError: the kernel has no such parameter, or, at the call, writes one that is no output.
    """
    kinds = dict.fromkeys(kernel.parameters, "Tensor")
    with AtTheCall():
        unknown = [each for each in (*outputs, *(numbers or {})) if each not in kinds]
        if unknown:
            raise ArgumentError("XT1092", f"{kernel.name} has no parameter {unknown[0]}, which register names",
                                f"it has {', '.join(kinds)}")
    kinds |= {parameter: _NUMBERS[kind] for parameter, kind in (numbers or {}).items()}
    kinds |= {parameter: f"Tensor(a{position}!)" for position, parameter in enumerate(outputs)}
    schema = ", ".join(("int[] grid", *(f"{kind} {parameter}" for parameter, kind in kinds.items())))
    checked: set[tuple[Any, ...]] = set()

    def launch(grid: Sequence[int], *args: Any) -> None:
        key = tuple((each.dtype, each.ndim) for each in args if isinstance(each, torch.Tensor))
        if key not in checked:
            _check_outputs(kernel, outputs, args, constants)
            checked.add(key)
        bound = kernel if where is None else kernel.on(where)
        bound[tuple(grid)](*args, **constants)

    operator: Callable[..., None] = torch.library.custom_op(
        name, launch, mutates_args=tuple(outputs), schema=f"({schema}) -> ()")
    torch.library.register_fake(name, lambda grid, *args: None)
    return operator


def _check_outputs(kernel: BaseKernel, outputs: Sequence[str], args: Sequence[Any],
                   constants: Mapping[str, Any]) -> None:
    """Raise if a kernel writes a parameter that torch was not told of: a compiled program would lose what it writes."""
    for position in kernel.lower(*args, **constants).written:
        if (parameter := kernel.parameters[position]) not in outputs:
            raise ArgumentError("XT1093", f"{kernel.name} writes {parameter}, which is not an output of its operator",
                                f"name every array that it writes: outputs={(*outputs, parameter)!r}")


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrix product as ``torch.matmul``, by :func:`xetile.matmul`: differentiable, and kept by ``torch.compile``.

    Args:
        a, b: tensors in host memory, of one element type, of one dimension or more; leading dimensions broadcast.

    Raises:
        ShapeError: the shapes do not multiply.
        ElementTypeError: elements of this type are not multiplied.
    """
    left = a.unsqueeze(0) if a.ndim == 1 else a
    right = b.unsqueeze(1) if b.ndim == 1 else b
    result: torch.Tensor = _matmul(left, right)
    result = result.squeeze(-2) if a.ndim == 1 else result
    return result.squeeze(-1) if b.ndim == 1 else result


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result = torch.empty(_product_shape(a, b), dtype=a.dtype, device=a.device)
    library.matmul(a.detach(), b.detach(), out=result)
    return result


def _product_shape(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    return (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def _setup(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:  # torch's names
    ctx.save_for_backward(*inputs)


def _backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Gradients of both operands, summed over the batches that they were broadcast to."""
    a, b = context.saved_tensors
    left, right = context.needs_input_grad
    return (_matmul(gradient, b.mT).sum_to_size(a.shape) if left else None,
            _matmul(a.mT, gradient).sum_to_size(b.shape) if right else None)


_matmul: Any = torch.library.custom_op("xetile::matmul", _product, mutates_args=(),
                                       schema="(Tensor a, Tensor b) -> Tensor")
_matmul.register_fake(lambda a, b: a.new_empty(_product_shape(a, b)))
_matmul.register_autograd(_backward, setup_context=_setup)
