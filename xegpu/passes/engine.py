"""Refuses products of whole vectors that no matrix engine takes (hardware.md, "DPAS")."""

from __future__ import annotations

from xegpu.dialect.products import DpasOp
from xegpu.dtypes import DType, of_mlir
from xegpu.errors import Note, TargetError
from xegpu.parties import made_at, valued
from xegpu.targets import TARGETS, MatrixForm, Target


def check_product(operation: DpasOp, target: Target) -> None:
    """Raise unless a target's matrix engine takes a product.

    A target without one has its work done by an emulation of the engine of 16 lanes.

    Raises:
        TargetError: it does not; the hint names the shapes and types that it takes.
    """
    a, b, c = (of_mlir(value.type.element_type)  # type: ignore[attr-defined]
               for value in (operation.a, operation.b, operation.result))
    forms = _forms(target)
    form = next((form for form in forms if (form.a, form.b) == (a, b)), None)
    if form is None:
        pairs = ", ".join(f"{form.a} x {form.b}" for form in forms)
        raise TargetError("XT4101",
                          f"the matrix engine of {target.name} does not multiply {a} by {b}", f"it takes {pairs}",
                          notes=_operands(operation))
    if c not in form.accumulators:
        names = " or ".join(map(str, form.accumulators))
        raise TargetError("XT4102", f"the matrix engine of {target.name} does not accumulate {a} by {b} in {c}",
                          f"make the accumulator and the result {names}", notes=_operands(operation))
    rows, columns, depth = operation.sizes()
    if rows not in target.repeats or (columns, depth) != (target.subgroup, form.depth):
        raise TargetError("XT4103",
                          f"the matrix engine of {target.name} has no product of {rows}x{depth} by {depth}x{columns} "
                          f"of {a} and {b}", _legal(target, form, c), notes=_operands(operation))


def _operands(operation: DpasOp) -> list[Note]:
    acc = {} if operation.acc is None else {"the accumulator": operation.acc}
    return valued(made_at(operation.result), {"A": operation.a, "B": operation.b, **acc})


def _forms(target: Target) -> list[MatrixForm]:
    own = [form for form in target.forms if form.engine == "dpas"]
    return own or [form for form in TARGETS["pvc"].forms if form.engine == "dpas"]


def _legal(target: Target, form: MatrixForm, c: DType) -> str:
    rows, lanes = max(target.repeats), target.subgroup
    counts = ", ".join(map(str, sorted(target.repeats)[:-1]))
    return (f"write vector<{rows}x{form.depth}x{form.a}>, vector<{form.depth}x{lanes}x{form.b}> -> "
            f"vector<{rows}x{lanes}x{c}>, or {counts} rows in the place of {rows}")
