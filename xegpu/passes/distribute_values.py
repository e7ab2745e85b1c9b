"""Vectors that come from no other block, and those that are told of, to the fragments of one lane.

A part of ``distribute``: one element a lane along its rows.
"""

from __future__ import annotations

from xdsl.dialects import ub
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation

from xegpu.dialect.diagnostics import AssertOp, DiagnosticOp, PrintOp
from xegpu.dialect.positions import IotaOp
from xegpu.dialect.vectors import shape_of
from xegpu.passes.distributor import Distributed, Distributor
from xegpu.rewriting import Rule


def _poison(build: Distributor, operation: ub.PoisonOp) -> None:
    shape, element = shape_of(operation.result), operation.result.type.element_type  # type: ignore[attr-defined]
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, element)
    made = ub.PoisonOp.create(result_types=[fragment], properties=dict(operation.properties))
    build.set(operation.result, build.emit(made), form)


def _spread(build: Distributor, operation: BroadcastOp) -> None:
    shape = operation.vector.type.get_shape()
    if len(shape) == 1:
        line = VectorType(operation.vector.type.element_type, (1,))
        value = build.emit(BroadcastOp(build.one(operation.source), line))
        build.set(operation.vector, value, build.line(shape[0]))
        return
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, operation.vector.type.element_type)
    build.set(operation.vector, build.emit(BroadcastOp(build.one(operation.source), fragment)), form)


def _iota(build: Distributor, operation: IotaOp) -> None:
    shape = operation.block_shape()
    form = Distributed(shape, build.plain(shape))
    fragment = build.fragment(shape, form.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    made = IotaOp(build.one(operation.start), operation.axis.value.data, fragment, shape, form.lanes)
    build.set(operation.result, build.emit(made), form)


def _diagnostic(build: Distributor, operation: DiagnosticOp) -> None:
    """Vectors one element a lane; where the lanes repeat what they hold, the first ones speak."""
    form = next((f for value in operation.values if isinstance(f := build.get(value).form, Distributed)), None)
    if form is None:
        build.copy(operation)
        return
    lanes = build.plain(form.shape)
    parts = [build.get(value) for value in operation.values]
    values = [build.converted(part, lanes) if isinstance(part.form, Distributed) else part.values[0] for part in parts]
    build.emit(type(operation)(operation.message.data, values, lanes.lanes))


RULES: dict[type[Operation], Rule] = {
    ub.PoisonOp: _poison, BroadcastOp: _spread, IotaOp: _iota, PrintOp: _diagnostic, AssertOp: _diagnostic,
}
"""Rules of :mod:`xegpu.passes.distribute`."""
