"""XeTile and LLVM's XeGPU dialect: the operations that correspond, export and import."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, memref, vector
from xdsl.dialects.builtin import ModuleOp

from xegpu.interop.llvm import export_vector
from xegpu.interop.llvm.correspondence import SYNC, VECTOR, Correspondence, export_rules, import_rules
from xegpu.interop.llvm.dialect import descriptors as llvm_descriptors
from xegpu.interop.llvm.dialect import ops as llvm
from xegpu.interop.llvm.dialect.matrix import CreateMemDescOp
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.exporter import as_gpu_module, check_chip
from xegpu.interop.llvm.import_matrix import alloca, create_mem_desc
from xegpu.interop.llvm.importer import create_nd_tdesc, update_nd_offset
from xegpu.mlir.vector import ExtractOp, ShapeCastOp, TransposeOp
from xegpu.rewrite.signless import signless
from xegpu.support.errors import TargetError
from xegpu.target.targets import Target
from xetile.dialect import gather_scatter, tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp
from xetile.dialect.vector import IotaOp, TileConvLayoutOp, TileTransposeOp
from xetile.dialect.wg_map_inference import map_of
from xetile.text.llvm import elements, lanes, matrix, reshape
from xetile.text.llvm import export_gather as gathers
from xetile.text.llvm import exporter as exports
from xetile.text.llvm import importer as imports
from xetile.text.llvm import vector as vectors

CORRESPONDENCES = (
    *SYNC,
    *VECTOR,
    Correspondence(tile_ops.InitTileOp, llvm_descriptors.CreateNdTdescOp,
                   exported=exports.init_tile, imported=create_nd_tdesc),
    Correspondence(tile_ops.UpdateTileOffsetOp, llvm_descriptors.UpdateNdOffsetOp,
                   exported=exports.TileExport.move, imported=update_nd_offset),
    Correspondence(tile_ops.LoadTileOp, llvm.LoadNdOp, exported=exports.load_tile, imported=imports.load_nd),
    Correspondence(tile_ops.StoreTileOp, llvm.StoreNdOp, exported=exports.store_tile, imported=imports.store_nd),
    Correspondence(tile_ops.PrefetchTileOp, llvm.PrefetchNdOp,
                   exported=exports.prefetch_tile, imported=imports.prefetch_nd),
    Correspondence(TileMmaOp, llvm.DpasOp, exported=exports.tile_mma, imported=imports.dpas),
    Correspondence(TileConvLayoutOp, llvm.ConvertLayoutOp,
                   exported=exports.tile_conv_layout, imported=imports.convert_layout),
    Correspondence(TileTransposeOp, TransposeOp, exported=exports.tile_transpose, imported=imports.transpose),
    Correspondence(TileReduceOp, MultiReductionOp, exported=exports.tile_reduce, imported=reshape.multi_reduction),
    Correspondence(TileBroadcastOp, vector.BroadcastOp, exported=exports.tile_broadcast, imported=imports.broadcast),
    Correspondence(IotaOp, None, exported=gathers.iota),
    Correspondence(gather_scatter.InitScatteredTileOp, None, exported=gathers.init_scattered_tile),
    Correspondence(gather_scatter.UpdateScatteredTileOp, None, exported=gathers.update_scattered_tile),
    Correspondence(gather_scatter.LoadGatherOp, None, exported=gathers.load_gather),
    Correspondence(gather_scatter.StoreScatterOp, None, exported=gathers.store_scatter),
    Correspondence(None, ShapeCastOp, imported=reshape.shape_cast),
    Correspondence(None, ExtractOp, imported=imports.extract),
    *(Correspondence(None, allocation, imported=alloca) for allocation in (memref.AllocaOp, memref.AllocOp)),
    Correspondence(None, CreateMemDescOp, imported=create_mem_desc),
    *(Correspondence(None, llvm_operation, imported=rule) for family in (elements, vectors, matrix, lanes)
      for llvm_operation, rule in family.RULES.items()),
)


def export(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    """Export a recorded kernel to LLVM's form, at work-group level.

    Args:
        function: the kernel as recorded.
        target: the device, one that LLVM knows.
        access: for each argument, how it may be reached.

    Raises:
        TargetError: the kernel has no ``wg_map``, or LLVM's dialect lacks something that it needs.
    """
    check_chip(target)
    maps = [map_of(result) for operation in function.walk() for result in operation.results]
    found = next((map_ for map_ in maps if map_ is not None), None)
    if found is None:
        raise TargetError("XT2400", f"{function.sym_name.data} has no wg_map: it is a program of one subgroup",
                          "print it at subgroup level: .xegpu_upstream")
    function = signless(function, TileMmaOp)
    rewriter = exports.TileExport(_EXPORT, target, function, access)
    return as_gpu_module(rewriter.function(function), found.subgroups, target.subgroup_size)


def imported(function: func.FuncOp, threads: int | None) -> func.FuncOp:
    """Import a kernel in LLVM's form to XeTile.

    Args:
        function: the kernel.
        threads: threads of a work-group, None if unknown.

    Raises:
        TextError: something in it cannot be read.
    """
    return imports.Tiles(_IMPORT, function, threads).function(function)


_EXPORT, _IMPORT = {**export_vector.RULES, **export_rules(CORRESPONDENCES)}, import_rules(CORRESPONDENCES)
