"""Target records: capabilities of each device (hardware.md; XeGPU.md, "Rules of sg_map").

A :class:`Target` answers questions; it holds no code of any pass. Adding a device is adding a record: how compilers and
drivers call it stands in it as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from xegpu.ir.dtypes import ELEMENTS, DType, bf16, e4m3, e5m2, f16, f32, f64, i8, i32, tf32, u8
from xegpu.support.errors import Note, TargetError
from xegpu.target.cache_policy import XE, XE2, XE3P, Caches


@dataclass(frozen=True)
class MmaShape:
    """Matrix multiply-accumulate shape of a matrix or vector engine: D[M,N] = C[M,N] + A[M,K] x B[K,N].

    Attributes:
        a, b: element types of the operands.
        accumulators: element types of C and D; the first is the default.
        k: K of one operation.
        engine: ``"dpas"`` for the matrix engine, ``"vector"`` for multiply-adds of the vector engine.
    """

    a: DType
    b: DType
    accumulators: tuple[DType, ...]
    k: int
    engine: str = "dpas"


@dataclass(frozen=True)
class BlockShape:
    """Shape of a 2D block message: ``blocks`` blocks of ``rows`` x ``columns`` elements side by side."""

    kind: str
    bits: int
    columns: int
    blocks: int
    rows: int


_POWERS = (1, 2, 4, 8, 16, 32)
_READ = [(8, 32, 1, _POWERS), (8, 32, 2, _POWERS), (8, 16, 4, (8, 16, 32)), (16, 16, 1, _POWERS), (16, 16, 2, _POWERS),
         (32, 8, 1, _POWERS), (32, 8, 2, _POWERS), (32, 16, 1, _POWERS)]
_TRANSFORM = [(8, 16, 1, (32,)), (8, 16, 2, (32,)), (8, 16, 4, (32,)), (16, 16, 1, (16, 32)), (16, 16, 2, (16, 32))]
_TRANSPOSE = [(32, 8, 1, (16, 32))]
_WRITE = [(8, 16, 1, (1, 2, 4, 8)), (8, 32, 1, (1, 2, 4, 8)), (16, 16, 1, (1, 2, 4, 8)), (32, 16, 1, (1, 2, 4, 8))]
_PREFETCH = [(8, 32, 1, _POWERS), (8, 32, 2, _POWERS), (8, 16, 1, (32,)), (8, 16, 2, (32,)), (8, 16, 4, (8, 16, 32)),
             (16, 16, 1, _POWERS), (16, 16, 2, _POWERS), (32, 8, 1, _POWERS), (32, 8, 2, _POWERS), (32, 16, 1, _POWERS)]
_REGISTER_BITS = 512
BLOCK_BUILTINS = tuple(
    BlockShape(kind, bits, columns, blocks, rows)
    for kind, table in (("read", _READ), ("read_transform", _TRANSFORM), ("read_transpose", _TRANSPOSE),
                        ("write", _WRITE), ("prefetch", _PREFETCH))
    for bits, columns, blocks, all_rows in table
    for rows in all_rows
)
"""The 2D block builtins that Intel's compiler declares for a subgroup of 16."""
XE2_BLOCKS = frozenset(
    block for block in BLOCK_BUILTINS
    if block.kind == "prefetch" or block.blocks == 1 or block.rows * block.columns * block.bits >= _REGISTER_BITS
)
"""2D block messages of Xe2. Multi-block reads whose blocks are smaller than a register are left out: the builtins
exist, but Intel's compiler warns that it pads such blocks with zeros, and reads the second from the wrong registers."""


_FLOAT8 = tuple(MmaShape(a, b, (f32,), 32) for a in (e4m3, e5m2) for b in (e4m3, e5m2))
"""Shapes of 8-bit floats. Intel's compiler accepts them for every device, and miscompiles them for those whose records
do not list them (bf8 by bf8 for all types, on Xe-HPC and Xe2)."""


def _dpas_shapes(subgroup: int) -> tuple[MmaShape, ...]:
    """DPAS shapes of the matrix engine. Of 4-bit integers K counts pairs."""
    small = subgroup == 8
    forms = [MmaShape(f16, f16, (f32,) if small else (f32, f16), 16),
             MmaShape(bf16, bf16, (f32,) if small else (f32, bf16), 16)]
    forms += [MmaShape(a, b, (i32,), 32) for kinds in ((i8, u8), ELEMENTS) for a in kinds for b in kinds]
    return tuple(forms) if small else (*forms, MmaShape(tf32, tf32, (f32,), 8))


def _vector_shapes(subgroup: int, *, all_types: bool) -> tuple[MmaShape, ...]:
    forms = [MmaShape(f32, f32, (f32,), subgroup, "vector"), MmaShape(f64, f64, (f64,), subgroup, "vector")]
    if all_types:
        forms += [MmaShape(f16, f16, (f32, f16), subgroup, "vector"),
                  MmaShape(bf16, bf16, (f32, bf16), subgroup, "vector"),
                  MmaShape(tf32, tf32, (f32,), subgroup, "vector")]
        forms += [MmaShape(a, b, (i32,), subgroup, "vector") for a in (i8, u8) for b in (i8, u8)]
    return tuple(forms)


@dataclass(frozen=True)
class Target:
    """Target record of one device.

    Attributes:
        name: the name an author writes.
        description: the products that carry it.
        ocloc: the device name that Intel's offline compiler takes, None where there is no machine code to make.
        subgroup_size: lanes of a subgroup in matrix kernels.
        mma_shapes: the products it computes, the matrix engine's first.
        blocks: 2D block messages; empty where there is no 2D block IO.
        registers: registers a thread, in small and large GRF mode; 0 where the mode cannot be chosen.
        register_bytes: bytes of one register.
        unrolled_bytes: bytes of vectors that are live at once in code without loops, at most, where registers are not
            what limits them: a CPU's compiler takes seconds for these, and minutes for ten times as many. Else 0.
        max_subgroups: most subgroups a work-group, in small and in large register mode.
        slm_bytes: bytes of shared local memory that a work-group can count on.
        unsupported_types: element types that it has no arithmetic for.
        fuses_loads: whether its products read their operands from memory, a number of A for a vector of B.
        immediate_offsets: whether a block message takes a constant distance from its address.
        caches: what its messages may say of the caches; None where nothing can be said.
        surface_states: whether arrays are addressed by surface states (:mod:`xegpu.target.surface_state`).
        rounds_division: whether it has the macros of exact division (``math.invm``), as cores with f64 have.
        bf16_arithmetic: whether its vector unit adds and multiplies bf16; else it is an operand or the result of
            an instruction of f32, which there it may not be.
        named_barriers: whether some subgroups of a work-group can wait for each other without the rest.
        block_scales: whether its products of 8-bit floats take a scale for each 32 elements.
        llvm_chip: its name in LLVM's own lowering of XeGPU; None where that does not know it.
        iga64: the name of its instruction set in Intel's disassembler; None where that does not know it, so that its
            machine code is not simulated.
        device_ids: ranges of PCI device ids, both ends included. An id says more than a name: products share names.
        device_name: a regular expression that finds its products by the names that drivers give them; "" for none.
        cores: Xe cores of the largest usual device: how many work-groups of 32 subgroups run at once. On a CPU, its
            own cores, which run a work-group each.
        clocks_per_element: clocks of a core's matrix engines for one element of a tile of C and 64 bytes of K.
    """

    name: str
    description: str
    ocloc: str | None
    subgroup_size: int
    mma_shapes: tuple[MmaShape, ...]
    blocks: frozenset[BlockShape] = frozenset()
    registers: tuple[int, int] = (128, 256)
    register_bytes: int = 64
    unrolled_bytes: int = 0
    max_subgroups: tuple[int, int] = (64, 32)
    slm_bytes: int = 64 * 1024
    repeat_counts: tuple[int, ...] = (8, 4, 2, 1)
    unsupported_types: frozenset[DType] = frozenset()
    fuses_loads: bool = False
    immediate_offsets: bool = False
    caches: Caches | None = None
    surface_states: bool = False
    rounds_division: bool = True
    bf16_arithmetic: bool = False
    named_barriers: bool = False
    block_scales: bool = False
    llvm_chip: str | None = None
    iga64: str | None = None
    device_ids: tuple[tuple[int, int], ...] = ()
    device_name: str = ""
    cores: int = 16
    clocks_per_element: float = 1 / 32

    @property
    def block_io(self) -> bool:
        """Whether it has 2D block IO."""
        return bool(self.blocks)

    @property
    def is_cpu(self) -> bool:
        """Whether it is a CPU, which runs the text of every GPU with a prelude, and not a GPU."""
        return self.ocloc is None

    @property
    def dpas_shapes(self) -> tuple[MmaShape, ...]:
        """Shapes of its matrix engine; without one, the shapes that the prelude emulates for its subgroups."""
        own = tuple(form for form in self.mma_shapes if form.engine == "dpas")
        return own or _dpas_shapes(self.subgroup_size)

    @cached_property
    def _mma_shapes(self) -> dict[tuple[DType, DType], MmaShape]:
        return {(form.a, form.b): form for form in reversed(self.mma_shapes) if form.a not in self.unsupported_types}

    def mma_shape(self, a: DType, b: DType, accumulator: DType | None = None) -> MmaShape:
        """The product that takes these element types.

        Raises:
            TargetError: there is none; the message lists the supported ones.
        """
        form = self._mma_shapes.get((a, b))
        if form is None:
            raise TargetError("XT4101", f"{self.name} has no matrix product of {a} by {b}", self._advice(a, b))
        if accumulator is not None and accumulator not in form.accumulators:
            raise self.no_accumulation(form, accumulator)
        return form

    def no_accumulation(self, form: MmaShape, accumulator: DType, notes: Iterable[Note] = ()) -> TargetError:
        """Error for an accumulator of an element type that an mma shape does not take."""
        return TargetError("XT4102", f"{self.name} does not accumulate {form.a} by {form.b} in {accumulator}",
                           f"make the accumulator and the result {' or '.join(map(str, form.accumulators))}",
                           notes=notes)

    def multiplies(self, a: DType, b: DType) -> bool:
        """Whether it has an mma shape of these element types."""
        return (a, b) in self._mma_shapes

    def _advice(self, a: DType, b: DType) -> str:
        pairs = sorted({f"{x.a} x {x.b}" for x in self._mma_shapes.values()})
        advice = f"{self.name} takes " + ", ".join(pairs)
        if "s" in (a.kind, b.kind):
            advice += "; convert 8-bit floats with .to(xt.f16), which holds them exactly"
        elif a is tf32 and b is tf32:
            advice += "; pass the arrays as f32 instead of tf32"
        elif f"{a} x {a}" in pairs:
            advice += f"; convert B with .to(xt.{a})"
        elif f"{b} x {b}" in pairs:
            advice += f"; convert A with .to(xt.{b})"
        return advice

    def repeat(self, rows: int) -> int:
        """Largest repeat count (M of one DPAS) that divides ``rows``."""
        return next(count for count in self.repeat_counts if rows % count == 0)

    def has_block(self, kind: str, bits: int, rows: int, columns: int, blocks: int) -> bool:
        """Whether the 2D block message exists."""
        return BlockShape(kind, bits, columns, blocks, rows) in self.blocks

    def largest_block(self, kind: str, bits: int, columns: int, shape: tuple[int, int]) -> BlockShape | None:
        """Largest message with blocks of ``columns`` columns that divides ``shape``; None if there is none."""
        fitting = [
            block for block in self.blocks
            if block.kind == kind and block.bits == bits and block.columns == columns
            and shape[0] % block.rows == 0 and shape[1] % (block.columns * block.blocks) == 0
        ]
        return max(fitting, key=lambda block: (block.rows * block.columns * block.blocks, block.rows), default=None)


_XE2 = Target("", "Xe2: 2D block IO and a matrix engine of 16 lanes", None, 16,
              _dpas_shapes(16) + _vector_shapes(16, all_types=False), XE2_BLOCKS, immediate_offsets=True, caches=XE2,
              named_barriers=True)
_ALCHEMIST = Target("", "Xe-HPG: a matrix engine of 8 lanes", None, 8,
                    _dpas_shapes(8) + _vector_shapes(8, all_types=False), register_bytes=32, caches=XE,
                    surface_states=True, rounds_division=False)
"""Records that the targets of a generation extend; not targets themselves."""

TARGETS = {
    target.name: target
    for target in (
        replace(_XE2, name="pvc", description="Data Center GPU Max (Ponte Vecchio)", ocloc="pvc", llvm_chip="pvc",
                iga64="12p72", device_ids=((0x0B69, 0x0B6E), (0x0BD0, 0x0BDB)), device_name=r"Data Center GPU Max",
                slm_bytes=128 * 1024, immediate_offsets=False, caches=XE, cores=64, clocks_per_element=1 / 64),
        replace(_XE2, name="bmg", description="Arc B-series (Battlemage)", ocloc="bmg", llvm_chip="bmg", iga64="2",
                device_ids=((0xE202, 0xE223),), device_name=r"Arc.* B(?!3\d0\b)\d{2,3}\b", cores=20),
        replace(_XE2, name="lnl", description="Core Ultra 200V (Lunar Lake)", ocloc="lnl-m", iga64="2",
                device_ids=((0x6420, 0x6420), (0x64A0, 0x64B0)), device_name=r"Arc.* 1[34]0V\b", cores=8),
        # Panther Lake's graphics carry a B number as Battlemage's do: B370, B390.
        replace(_XE2, name="ptl", description="Core Ultra 300 (Panther Lake)", ocloc="ptl-h",
                device_ids=((0xB080, 0xB0B0), (0xFD80, 0xFD81)), device_name=r"Arc.* B3\d0\b", cores=12),
        replace(_XE2, name="cri", description="Crescent Island (Xe3P)", ocloc="cri", llvm_chip="cri",
                device_ids=((0x674C, 0x674C),), device_name=r"Crescent Island",
                mma_shapes=_dpas_shapes(16) + _FLOAT8 + _vector_shapes(16, all_types=False), caches=XE3P,
                block_scales=True, bf16_arithmetic=True, cores=32),
        replace(_ALCHEMIST, name="dg2", description="Arc A-series, Data Center GPU Flex (Alchemist)", ocloc="dg2",
                iga64="12p71", device_ids=((0x4F80, 0x4F88), (0x5690, 0x56C2)),
                device_name=r"Arc.* A\d{2,3}M?\b|Data Center GPU Flex",
                unsupported_types=frozenset([f64]), cores=32),
        replace(_ALCHEMIST, name="arl", description="Core Ultra 200H (Arrow Lake H)", ocloc="arl-h", iga64="12p71",
                device_ids=((0x7D51, 0x7D51), (0x7DD1, 0x7DD1)), device_name=r"Arc.* 1[34]0T\b", cores=8),
        Target("cpu", "any CPU with an OpenCL driver", None, 16, _vector_shapes(16, all_types=True),
               registers=(0, 0), unrolled_bytes=4096, max_subgroups=(512, 512), slm_bytes=32 * 1024,
               fuses_loads=True,
               cores=os.cpu_count() or 1),
    )
}


DEFAULT_TARGET = next(iter(TARGETS))
"""Name of the target where an author names none, and no device is there that says it."""
CPU_TARGET = next(target.name for target in TARGETS.values() if target.is_cpu)
"""Name of the target of any CPU."""


def find_target(name: str | Target | None = None) -> Target:
    """Look up a target by its name; the default one for None.

    Raises:
        TargetError: there is no such target; the message lists the known ones.
    """
    if isinstance(name, Target):
        return name
    if name is None:
        name = DEFAULT_TARGET
    if name not in TARGETS:
        raise TargetError("XT4104", f"there is no target {name!r}", f"use one of: {', '.join(TARGETS)}")
    return TARGETS[name]


def listed(has: Callable[[Target], object], last: str = "and") -> str:
    """Enumerate the targets that satisfy a predicate, for messages: ``pvc, bmg and lnl``.

    Args:
        has: the predicate.
        last: the word before the last name.
    """
    names = [target.name for target in TARGETS.values() if has(target)]
    return f" {last} ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
