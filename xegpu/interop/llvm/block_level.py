"""Block-level XeGPU and LLVM's dialect: the operations that correspond, export and import."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, memref, vector
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp

from xegpu.dialect import block_io, gather_scatter, reduction, sync
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.vector import BitcastOp, IotaOp
from xegpu.interop.llvm import export_blocks as exports
from xegpu.interop.llvm import export_vector
from xegpu.interop.llvm import import_blocks as imports
from xegpu.interop.llvm.correspondence import SYNC, VECTOR, Correspondence, export_rules, import_rules
from xegpu.interop.llvm.dialect import descriptors as llvm_descriptors
from xegpu.interop.llvm.dialect import gather_scatter as llvm_gather_scatter
from xegpu.interop.llvm.dialect import ops as llvm
from xegpu.interop.llvm.dialect.matrix import CreateMemDescOp, LoadMatrixOp, StoreMatrixOp
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.exporter import Export, as_gpu_module, check_chip
from xegpu.interop.llvm.import_matrix import alloca, create_mem_desc, load_matrix, store_matrix
from xegpu.interop.llvm.importer import constant, create_nd_tdesc, update_nd_offset
from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.mlir.vector import ExtractOp, ShapeCastOp, TransposeOp
from xegpu.rewrite.signless import signless
from xegpu.target.targets import Target

CORRESPONDENCES = (
    *SYNC,
    Correspondence(sync.InitNbarrierOp, None, exported=exports.init_nbarrier),
    *VECTOR,
    Correspondence(block_io.CreateNdTdescOp, llvm_descriptors.CreateNdTdescOp,
                   exported=exports.create_nd_tdesc, imported=create_nd_tdesc),
    Correspondence(block_io.UpdateNdOffsetOp, llvm_descriptors.UpdateNdOffsetOp,
                   exported=Export.move, imported=update_nd_offset),
    Correspondence(block_io.LoadNdOp, llvm.LoadNdOp, exported=exports.load_nd, imported=imports.load_nd),
    Correspondence(block_io.StoreNdOp, llvm.StoreNdOp, ("value",), exported=exports.store_nd),
    Correspondence(block_io.PrefetchNdOp, llvm.PrefetchNdOp, exported=exports.prefetch_nd),
    Correspondence(DpasOp, llvm.DpasOp, ("a", "b", "acc"), exported=exports.dpas),
    Correspondence(None, llvm.ConvertLayoutOp, imported=imports.convert_layout),
    Correspondence(gather_scatter.CreateTdescOp, None, exported=exports.create_tdesc),
    Correspondence(gather_scatter.UpdateOffsetOp, None, exported=exports.update_offset),
    Correspondence(gather_scatter.LoadGatherOp, llvm_gather_scatter.LoadOp,
                   exported=exports.load_gather, imported=imports.load_gathered),
    Correspondence(gather_scatter.StoreScatterOp, llvm_gather_scatter.StoreOp,
                   exported=exports.store_scatter, imported=imports.store_gathered),
    Correspondence(gather_scatter.PrefetchOp, llvm_gather_scatter.PrefetchOp,
                   exported=exports.prefetch_scattered, imported=imports.prefetch_gathered),
    Correspondence(reduction.ReduceOp, MultiReductionOp, exported=exports.reduce, imported=imports.multi_reduction),
    Correspondence(reduction.BroadcastOp, vector.BroadcastOp, exported=exports.broadcast, imported=imports.broadcast),
    Correspondence(IotaOp, llvm_gather_scatter.StepOp, exported=exports.iota, imported=imports.step),
    Correspondence(None, memref.LoadOp, imported=imports.load_scalar),
    *(Correspondence(None, allocation, imported=alloca) for allocation in (memref.AllocaOp, memref.AllocOp)),
    Correspondence(None, CreateMemDescOp, imported=create_mem_desc),
    Correspondence(None, LoadMatrixOp, imported=load_matrix),
    Correspondence(None, StoreMatrixOp, imported=store_matrix),
    Correspondence(BitcastOp, vector.BitcastOp, exported=exports.bitcast, imported=imports.bitcast),
    Correspondence(ExtractOp, None, exported=exports.extract),
    Correspondence(ShapeCastOp, ShapeCastOp, exported=exports.shape_cast, imported=imports.shape_cast),
    Correspondence(None, TransposeOp, imported=imports.transpose),
    Correspondence(None, ConstantOp, imported=constant),
)


def export(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    """Export a kernel at stage ``to-xegpu`` to LLVM's form, at subgroup level.

    Args:
        function: the kernel.
        target: the target, which LLVM must know.
        access: access kind of each argument.

    Raises:
        TargetError: LLVM's dialect lacks the target or an operation of the kernel.
    """
    check_chip(target)
    function = signless(function, DpasOp)
    rewriter = Export(_EXPORT, target, function, access)
    return as_gpu_module(rewriter.function(function), subgroup_count(function), target.subgroup_size)


def imported(function: func.FuncOp, threads: int | None) -> func.FuncOp:
    """Import a kernel in LLVM's form, at subgroup level.

    Args:
        function: the kernel.
        threads: threads of a work-group, None if unknown.

    Raises:
        TextError: something in it cannot be read.
    """
    return imports.Blocks(_IMPORT, threads).function(function)


_EXPORT, _IMPORT = {**export_vector.RULES, **export_rules(CORRESPONDENCES)}, import_rules(CORRESPONDENCES)
