"""Lane distribution of prints and assertions: vectors have one element a lane along their rows."""

from __future__ import annotations

from xdsl.ir import Operation

from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp
from xegpu.passes.distribute_lanes.rewriter import Distributed, DistributeLanesRewriter
from xegpu.rewrite.rewriter import Rule


def _diagnostic(rewriter: DistributeLanesRewriter, operation: DiagnosticOp) -> None:
    """Vectors with one element a lane; if lanes hold replicas, only the first of each print."""
    form = next((f for value in operation.values if isinstance(f := rewriter.lookup(value).encoding, Distributed)),
                None)
    if form is None:
        rewriter.copy(operation)
        return
    lanes = rewriter.default_map(form.shape)
    parts = [rewriter.lookup(value) for value in operation.values]
    values = [rewriter.converted(part, lanes) if isinstance(part.encoding,
                                                            Distributed) else part.values[0] for part in parts]
    rewriter.emit(type(operation)(operation.message.data, values, lanes.lanes))


RULES: dict[type[Operation], Rule] = {PrintOp: _diagnostic, AssertOp: _diagnostic}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
