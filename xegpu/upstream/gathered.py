"""LLVM's operations on single elements to ours, a part of :mod:`xegpu.upstream.blocks`.

    %v = xegpu.load %A[%o], %m : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
becomes
    %d = xegpu.create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, ...>
    %v = xegpu.load_gather %d, %m

What LLVM leaves open where the mask is false is 0 here. Chunks of several elements a lane lie the other way round in
LLVM's form, and are not read.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, MemRefType, VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.dialect import scattered
from xegpu.dialect.attributes import ScatterTdesc, TensorDesc, TensorDescType
from xegpu.dialect.hints import hints_of, with_hints
from xegpu.rewriting import Rule
from xegpu.upstream.addresses import place_of
from xegpu.upstream.scattered import ElementsOp, LoadOp, PrefetchOp, StepOp, StoreOp


def _desc(build: Any, operation: ElementsOp, element: Any) -> SSAValue:
    """A descriptor of the elements."""
    shape = operation.offsets.type.get_shape()  # type: ignore[attr-defined]
    if getattr(operation, "chunk_size", None) is not None or len(shape) != 1:
        build.refuse("XT3643", "chunks of several elements a lane are not read",
                     "load the elements one by one, with offsets of their own; or write the kernel in our own form, "
                     "whose chunks lie in front: vector<4x16xf32>")
    type_ = TensorDescType(TensorDesc(tuple(shape), element, scatter=ScatterTdesc()))
    return build.emit(scattered.CreateTdescOp(_source(build, operation), build.one(operation.offsets), type_))  # type: ignore


def _source(build: Any, operation: ElementsOp) -> SSAValue:
    """The array itself where the base is its address: it counts from its first element, too."""
    source = operation.source
    if isinstance(source.type, IntegerType) and isinstance(source.owner, Operation) and source.owner.operands:
        place = place_of(source)
        if place is not None and not any(at is not None for at in place.lead):
            return build.one(place.array)  # type: ignore[no-any-return]
        build.refuse("XT3635",
                     "this address is not that of an array", "take it with memref.extract_aligned_pointer_as_index of "
                     "the array, or pass it as an argument")
    return build.one(source)  # type: ignore[no-any-return]


def _load(build: Any, operation: LoadOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    made = scattered.LoadGatherOp(_desc(build, operation, result.element_type), build.one(operation.mask))
    build.set(operation.result, build.emit(with_hints(made, hints_of(operation))))


def _store(build: Any, operation: StoreOp) -> None:
    value = build.one(operation.value)
    desc = _desc(build, operation, operation.value.type.element_type)  # type: ignore[attr-defined]
    build.emit(with_hints(scattered.StoreScatterOp(value, desc, build.one(operation.mask)), hints_of(operation)))


def _prefetch(build: Any, operation: PrefetchOp) -> None:
    source = _source(build, operation)
    if not isinstance(source.type, MemRefType):
        build.refuse("XT3644", "nothing says what elements are prefetched from this address",
                     "prefetch from a memref, whose type says it")
    element = source.type.element_type  # type: ignore[attr-defined]
    made = scattered.PrefetchOp(_desc(build, operation, element))
    build.emit(with_hints(made, hints_of(operation)))


def _step(build: Any, operation: StepOp) -> None:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    numbers = DenseIntOrFPElementsAttr.from_list(type_, list(range(type_.get_shape()[0])))  # type: ignore[arg-type]
    build.set(operation.result, build.emit(arith.ConstantOp(numbers)))


RULES: dict[type[Operation], Rule] = {LoadOp: _load, StoreOp: _store, PrefetchOp: _prefetch, StepOp: _step}
