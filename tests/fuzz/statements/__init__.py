"""The statements of the generator, with their weights."""

from tests.fuzz.generator import Statement
from tests.fuzz.statements import (
    control,
    elementwise,
    functions,
    layout,
    matmul,
    memory,
    ordered,
    rows,
    scalars,
    scattered,
)

STATEMENTS: tuple[tuple[int, Statement], ...] = (
    (6, memory.load), (6, elementwise.arithmetic), (2, elementwise.bitwise), (2, elementwise.shift),
    (2, elementwise.division), (2, elementwise.selection), (2, elementwise.unary), (1, elementwise.power),
    (1, elementwise.fma), (2, elementwise.comparison), (3, elementwise.where), (3, elementwise.conversion),
    (1, elementwise.inexact), (1, elementwise.bitcast), (3, layout.transpose), (3, layout.reduction),
    (3, layout.broadcast), (1, layout.blocks), (2, layout.convert_layout), (1, layout.iota), (1, layout.filled),
    (2, scattered.gather), (1, scattered.scatter), (1, scattered.atomic), (2, scattered.shared),
    (1, scattered.single), (4, matmul.product), (1, memory.move_tile), (1, memory.prefetch), (2, memory.store),
    (1, scalars.arithmetic), (1, scalars.argument), (1, scalars.size_of), (4, control.loop), (3, control.when),
    (2, ordered.cumulative), (1, ordered.scan), (1, ordered.sort), (1, ordered.extreme_index), (2, ordered.shift),
    (2, ordered.part), (1, elementwise.small_float), (2, rows.gather), (1, rows.scatter), (1, rows.atomic),
    (2, rows.load_vector), (1, rows.store_vector), (3, functions.helper), (2, functions.reduction),
    (2, functions.item),
)
control.INSIDE += [statement for weight, statement in STATEMENTS for _ in range(weight)
                   if statement not in (scalars.argument, scattered.shared)]
