"""Control-flow graphs of functions: reverse post-order, dominators, post-dominators and natural loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.ir import Block, Operation

Edges = Callable[[Block], Sequence[Block]]


def successors(block: Block) -> Sequence[Block]:
    """Blocks that the terminator of a block branches to."""
    return block.last_op.successors if block.last_op is not None else ()


def terminator(block: Block) -> Operation:
    """Last operation of a block that has one."""
    assert block.last_op is not None
    return block.last_op


def reverse_post_order(entry: Block, edges: Edges) -> list[Block]:
    """Blocks that can be reached from ``entry``, each before those it leads to, back edges aside."""
    order: list[Block] = []
    seen, waiting = {entry}, [(entry, iter(edges(entry)))]
    while waiting:
        block, following = waiting[-1]
        new = next((each for each in following if each not in seen), None)
        if new is None:
            order.append(block)
            waiting.pop()
        else:
            seen.add(new)
            waiting.append((new, iter(edges(new))))
    return order[::-1]


def immediate_dominators(order: Sequence[Block], predecessors: Mapping[Block, Iterable[Block]]) -> dict[Block, Block]:
    """Immediate dominators (Cooper, Harvey and Kennedy), that of the entry being itself.

    Args:
        order: the blocks in reverse post-order, the entry first.
        predecessors: of each.
    """
    number = {block: position for position, block in enumerate(order)}
    found = {order[0]: order[0]}

    def common(a: Block, b: Block) -> Block:
        while a is not b:
            while number[a] > number[b]:
                a = found[a]
            while number[b] > number[a]:
                b = found[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [each for each in predecessors[block] if each in found]
            new = known[0]
            for other in known[1:]:
                new = common(new, other)
            changed, found[block] = changed or found.get(block) is not new, new
    return found


class FlowGraph:
    """Control-flow graph of a region.

    Attributes:
        order: the blocks in reverse post-order; others cannot be reached.
        loops: the blocks of each natural loop, by header.
        irreducible: an edge into the middle of a loop, as (from, to); None if there is none.
    """

    def __init__(self, entry: Block) -> None:
        self.order = reverse_post_order(entry, successors)
        self.predecessors: dict[Block, list[Block]] = {block: [] for block in self.order}
        for block in self.order:
            for after in successors(block):
                self.predecessors[after].append(block)
        self._dominators = immediate_dominators(self.order, self.predecessors)
        self._post_dominators = self._immediate_post_dominators()
        number = {block: position for position, block in enumerate(self.order)}
        self.loops: dict[Block, set[Block]] = {}
        self.irreducible: tuple[Block, Block] | None = None
        for block in self.order:
            for after in successors(block):
                if number[after] > number[block]:
                    continue
                if self._dominates(after, block):
                    self._add_loop(after, block)
                else:
                    self.irreducible = self.irreducible or (block, after)

    def merge_of(self, block: Block) -> Block | None:
        """Immediate post-dominator; None where the paths meet at the function's end only."""
        return self._post_dominators.get(block)

    def ends(self, block: Block) -> bool:
        """Whether a path from the block leads to the function's end."""
        return block in self._ending

    def _immediate_post_dominators(self) -> dict[Block, Block]:
        end = Block()
        last = [block for block in self.order if not successors(block)]

        def before(block: Block) -> Sequence[Block]:
            return last if block is end else self.predecessors[block]

        order = reverse_post_order(end, before)
        self._ending = set(order)
        after = {block: [each for each in successors(block) if each in self._ending] or [end] for block in order[1:]}
        found = immediate_dominators(order, after)
        return {block: merge for block, merge in found.items() if merge is not end and block is not end}

    def _dominates(self, above: Block, block: Block) -> bool:
        while block is not above and self._dominators[block] is not block:
            block = self._dominators[block]
        return block is above

    def _add_loop(self, header: Block, latch: Block) -> None:
        """Add the blocks from which ``latch`` is reached without passing the header."""
        inside = self.loops.setdefault(header, {header})
        waiting = [latch]
        while waiting:
            block = waiting.pop()
            if block not in inside:
                inside.add(block)
                waiting += self.predecessors[block]
