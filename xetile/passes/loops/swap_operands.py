"""Operand swapping: a product is computed as its transpose, C^T = B^T A^T, where that takes fewer load messages.

    %d = scf.for ... iter_args(%c = %zero : vector<32x16xf32>) {
      %a = load_tile %t : -> vector<32x32xbf16>                 A stored by columns
      %b = load_tile %u : -> vector<32x16xbf16>
      yield (tile_mma %a, %b, %c) }
becomes
    %e = scf.for ... iter_args(%c = %zero : vector<16x32xf32>) {
      %a = load_tile %t : -> vector<32x32xbf16>
      %b = load_tile %u : -> vector<32x16xbf16>
      yield (tile_mma (tile_transpose %b), (tile_transpose %a), %c) }
    %d = tile_transpose %e

``row-major`` folds the transposes of the operands into their loads. A stored by columns is B^T's other operand as it
lies in memory, and B stored by columns is operand A: if both are, nothing is transposed in a step. If one is, the
smaller one of the two operands is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import Webs, view_webs
from xegpu.ir.dtypes import DType, bf16, f16, f32, i8, i32, of_mlir, tf32, u8
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.vector import shape_of, vector_type
from xegpu.passes.loops.unroll import trips_of
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import AtomicRMWTileOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.vector import TileTransposeOp, element_of
from xetile.dialect.wg_map import Pair
from xetile.dialect.wg_map_inference import map_of
from xetile.passes.blocking.unpack_blocks import BLOCKS

_TYPES = (f16, bf16, tf32, i8, u8)
"""Element types that no message transposes into the rows of operand A."""
_SUMS = (f32, i32)
"""Element types of sums that are transposed through shared local memory behind the loop
(:mod:`xetile.passes.cooperative_loads.slm_transpose`)."""
_ROW_BITS = 256
"""Bits of a row of operand A in one DPAS."""
_MESSAGES = {("a", False): 0.25, ("b", False): 0.25, ("b", True): 1.0, ("a", True): 2.25}
"""Messages for 512 bytes of operands stored by rows and by columns (True): a plain load has up to 2048 bytes, one that
transposes words 512; a block that is transposed in shared local memory is stored and loaded again."""
_LEAST = 1 / 8
"""Messages of a step that are saved for each DPAS, up to which as many waits take their place: products come in another
order (counted on bmg with B of 32 x 64 stored by columns)."""
_BEHIND = 18
"""Instructions that transpose lanes times lanes elements of the result behind the loop, four of which are messages."""


@dataclass(frozen=True)
class SwapOperands:
    """Pass ``swap-operands``.

    Attributes:
        target: its lanes and its matrix engine.
        access: for each argument its access kind; those of column-major arrays end in ``columns``.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such products transposed; the module itself if there are none."""
        return rewrite_in_place(module, for_loops, self.plan, _swap)

    def plan(self, loop: scf.ForOp) -> tuple[_Chain, ...]:
        """The sums of products of a loop that are to be transposed: all of them, or none."""
        chains = [chain for argument in loop.body.block.args[1:] if (chain := _chain_of(loop, argument))]
        if not chains:
            return ()
        operands = _Operands(function_of(loop), self.access)
        while chains and (kept := [chain for chain in chains if self._may_swap(chain, chains, operands)]) != chains:
            chains = kept
        return tuple(chains) if chains and self._pays(loop, chains, operands) else ()

    def _may_swap(self, chain: _Chain, chains: Sequence[_Chain], operands: _Operands) -> bool:
        """Whether a sum consists of products whose operands nothing needs but the sums in ``chains``."""
        products = {product for each in chains for product in each.products}
        return all(self._has_blocks(product) and operands.stored_by_columns(value, products) is not None
                   for product in chain.products for value in (product.a, product.b))

    def _has_blocks(self, product: TileMmaOp) -> bool:
        """Whether a product's operands are whole blocks for DPAS, and still are when they are exchanged."""
        (rows, depth), columns, lanes = _shape(product.a), _shape(product.b)[1], self.target.subgroup_size
        left, right = _dtype(product.a), _dtype(product.b)
        return left in _TYPES and right in _TYPES and self.target.multiplies(left, right) and \
            self.target.multiplies(right, left) and not (rows % lanes or columns % lanes or depth % (
                _ROW_BITS // left.bits))

    def _pays(self, loop: scf.ForOp, chains: Sequence[_Chain], operands: _Operands) -> bool:
        """Whether loads take fewer messages in all steps than the transposition of the results behind the loop."""
        products = {product for chain in chains for product in chain.products}
        loaded = {(_load_of(value), side): value for product in products
                  for side, value in (("a", product.a), ("b", product.b))}  # what several products need is loaded once
        saved = sum(self._saved(side, value, bool(operands.stored_by_columns(value, products)))
                    for (_, side), value in loaded.items())
        trips, squares = trips_of(loop), sum(prod(_shape(chain.products[-1].result)) for chain in chains) / \
            self.target.subgroup_size ** 2
        return saved > _LEAST * sum(map(self._dpas, products)) and (trips is None or saved * trips > _BEHIND * squares)

    def _dpas(self, product: TileMmaOp) -> float:
        """DPAS of a product: 8 rows, as many columns as lanes."""
        (rows, depth), columns, bits = _shape(product.a), _shape(product.b)[1], _dtype(product.a).bits
        return rows * depth * columns / (8 * self.target.subgroup_size * (_ROW_BITS // bits))

    @staticmethod
    def _saved(side: str, operand: SSAValue, by_columns: bool) -> float:
        """Messages of a step that an operand takes less as the other operand of the transposed product."""
        other = "b" if side == "a" else "a"
        return prod(_shape(operand)) * _dtype(operand).bytes / 512 * (
            _MESSAGES[side, by_columns] - _MESSAGES[other, not by_columns])


@dataclass(frozen=True)
class _Chain:
    """A sum that a loop carries and to which only products are added, one after the other."""

    argument: BlockArgument
    products: tuple[TileMmaOp, ...]


class _Operands:
    """Memory order of the operands of products.

    Args:
        function: a kernel.
        access: for each argument its access kind.
    """

    def __init__(self, function: func.FuncOp, access: Sequence[str]) -> None:
        self._kinds = dict(zip(function.body.block.args, access, strict=True))
        self._webs: Webs = view_webs(function)

    def stored_by_columns(self, operand: SSAValue, products: Iterable[Operation]) -> bool | None:
        """Whether memory has the columns of an operand; None unless all that is loaded from its tile is loaded for
        ``products`` alone, in one form, by block messages."""
        load = _load_of(operand)
        if load is None or load.parent is not _operand_block(operand):
            return None
        uses = [use.operation for use in self._webs.uses(load.tile)]
        if any(isinstance(user, (tile_ops.StoreTileOp, AtomicRMWTileOp)) for user in uses):
            return None
        forms = {_form(user, products) for user in uses if isinstance(user, tile_ops.LoadTileOp)}
        inits = [value.owner for value in self._webs.members(load.tile) if isinstance(value.owner, tile_ops.InitTileOp)]
        stored = {access_kind(init, self._kinds) for init in inits if BLOCKS not in init.attributes}
        if len(forms) != 1 or len(stored) != 1 or not all(BLOCKS not in init.attributes for init in inits):
            return None
        is_transposed, kind = forms.pop(), stored.pop()
        return None if is_transposed is None or kind not in ("block", "block-columns") else \
            (kind == "block-columns") != is_transposed


def _operand_block(operand: SSAValue) -> object:
    """The block in which an operand is defined."""
    owner = operand.owner
    return owner.parent if isinstance(owner, Operation) else owner


def _form(load: tile_ops.LoadTileOp, products: Iterable[Operation]) -> bool | None:
    """Whether a load is transposed for products; None if it has other uses, or uses of both kinds."""
    users = [use.operation for use in load.result.uses]
    if load.padding is not None or not users:
        return None
    if all(user in products for user in users):
        return False
    transposes = all(isinstance(user, TileTransposeOp) and bool(user.result.uses) and all(
        use.operation in products for use in user.result.uses) for user in users)
    return True if transposes else None


def _load_of(operand: SSAValue) -> tile_ops.LoadTileOp | None:
    """The load of an operand, which may be transposed behind it."""
    owner = operand.owner
    if isinstance(owner, TileTransposeOp):
        owner = owner.source.owner
    return owner if isinstance(owner, tile_ops.LoadTileOp) else None


def _shape(value: SSAValue) -> Pair:
    """Rows and columns of a vector, as a subgroup has it."""
    map_ = map_of(value)
    rows, columns = shape_of(value) if map_ is None else map_.sg_data
    return rows, columns


def _dtype(value: SSAValue) -> DType:
    """Element type of a vector."""
    return of_mlir(element_of(value))


def _chain_of(loop: scf.ForOp, argument: BlockArgument) -> _Chain | None:
    """The sum of products that a loop carries as an argument, from one number for all elements on."""
    if not isinstance(loop.iter_args[argument.index - 1].owner, BroadcastOp) or \
            _dtype(argument) not in _SUMS:
        return None
    products: list[TileMmaOp] = []
    value: SSAValue = argument
    while value.has_one_use():
        use = next(iter(value.uses))
        user = use.operation
        if user is loop.body.block.last_op:
            return _Chain(argument, tuple(products)) if products and use.index == argument.index - 1 else None
        if not isinstance(user, TileMmaOp) or user.acc is not value or user.parent is not loop.body.block or \
                len(shape_of(user.result)) != 2:
            return None
        products.append(user)
        value = user.result
    return None


def _swap(inserter: Inserter, loop: scf.ForOp, chains: Sequence[_Chain]) -> None:
    """Transpose sums of products, in the loop and behind it."""
    transposed, starts = _transposer(inserter), list(loop.iter_args)
    indices = [chain.argument.index for chain in chains]
    for chain, index in zip(chains, indices, strict=True):
        type_ = vector_type(shape_of(chain.argument)[::-1], element_of(chain.argument))
        start = starts[index - 1].owner
        assert isinstance(start, BroadcastOp)
        starts[index - 1] = inserter.before(loop, BroadcastOp(start.source, type_))
        _swap_products(inserter, loop, chain, loop.body.block.insert_arg(type_, index), transposed)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, starts, loop.detach_region(loop.body))
    new.attributes.update(loop.attributes)
    inserter.before(loop, new)
    for old, result in zip(loop.results, new.results, strict=True):
        result.name_hint = old.name_hint
        swapped = old.index + 1 in indices
        old.replace_all_uses_with(inserter.before(loop, TileTransposeOp(result), old.name_hint) if swapped else result)
    erase(loop)


def _swap_products(inserter: Inserter, loop: scf.ForOp, chain: _Chain, carried: BlockArgument,
                   transposed: Callable[[SSAValue], SSAValue]) -> None:
    """Write the products of a chain transposed, which begins with ``carried``."""
    value: SSAValue = carried
    carried.name_hint = chain.argument.name_hint
    for product in chain.products:
        left, right = transposed(product.b), transposed(product.a)
        value = inserter.before(product, TileMmaOp(left, right, value, carried.type), product.result.name_hint)
    terminator = loop.body.block.last_op
    assert terminator is not None
    terminator.operands[carried.index - 1] = value
    for product in chain.products[::-1]:
        transposes = {operand.owner for operand in (product.a, product.b)}
        erase(product)
        for transpose in transposes:
            if isinstance(transpose, TileTransposeOp) and not transpose.result.uses:
                erase(transpose)
    loop.body.block.erase_arg(chain.argument)


def _transposer(inserter: Inserter) -> Callable[[SSAValue], SSAValue]:
    """A function that gives the transpose of an operand, one for all products of a loop, right behind its load."""
    made: dict[SSAValue, SSAValue] = {}

    def transposed(operand: SSAValue) -> SSAValue:
        load = operand.owner
        if isinstance(load, TileTransposeOp):
            return load.source
        if operand not in made:
            assert isinstance(load, tile_ops.LoadTileOp)
            assert load.next_op is not None
            made[operand] = inserter.before(load.next_op, TileTransposeOp(operand))
        return made[operand]

    return transposed
