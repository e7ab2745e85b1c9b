"""Schedules: the steps of one rank of a distributed product, as data.

The MPI executor, the replay of all ranks in NumPy and the clock read the same list, so that what is counted is what is
sent. A schedule needs no MPI and no arrays. Regions are those of the whole matrices.

    SUMMA, panels 0 and 1 of a rank            reduce-scatter over pk = 3, rank 0
    Pack 0, Broadcast 0                        Multiply band 2, Receive band 1
    Pack 1, Multiply 0, Broadcast 1            Multiply band 1, Send band 2, Add band 1
    Multiply 1                                 Receive band 0, Multiply band 0, Send band 1, Add band 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xetile.distributed.grid import SUM_BYTES, Grid
from xetile.distributed.regions import Region, split
from xetile.distributed.steps import Add, Broadcast, Finish, Multiply, Pack, Receive, Schedule, Send, Step, Wait

OVERLAPS = ("chunked", "signalled", "none")
ORDERS = ("ring", "direct")


def schedule(grid: Grid, rank: int, *, panel: int | None = None, overlap: str = "chunked",
             order: str = "ring", fuse: bool = True) -> Schedule:
    """Steps of a rank.

    Args:
        grid: the process grid.
        rank: 0 to ``grid.ranks - 1``.
        panel: the largest depth of a panel; None for whole blocks.
        overlap: ``"chunked"``: the next panel or band travels while one is multiplied; ``"signalled"``: the same, and
            the bands of a reduce-scatter are one launch that signals each band; ``"none"``.
        order: ``"ring"``: messages go to the neighbour, or ``"direct"``: to each rank that needs them. The bands of a
            signalled product always go directly.
        fuse: whether whole products apply the epilogue at once, and their sums are nowhere.
    """
    return _Builder(grid, rank, panel, overlap, order, fuse).build()


@dataclass(frozen=True)
class _Panel:
    """Panel: operands of one product, their buffers, and the steps that fill them."""

    a: str
    b: str
    region: Region
    depth: tuple[int, int]
    pack: tuple[Step, ...] = ()
    fetch: tuple[Step, ...] = ()


class _Builder:
    def __init__(self, grid: Grid, rank: int, panel: int | None, overlap: str, order: str, fuse: bool) -> None:
        self.grid, self.rank, self.panel, self.overlap = grid, rank, panel, overlap
        self.signalled, self.fuse = overlap == "signalled", fuse
        self.order = "direct" if self.signalled else order
        self.row, self.column, self.layer = grid.coordinates(rank)
        self.rows, self.columns, self.depth = grid.product_of(rank)
        self.steps: list[Step] = []
        self.buffers: dict[str, int] = {}

    def build(self) -> Schedule:
        # K = 0: one product of nothing, so that the sums become zero.
        nothing = _Panel("a", "b", Region(self.rows, self.columns), (self.depth[0], self.depth[0]))
        panels = list(self._panels()) or [nothing]
        fused = self.fuse and self.grid.pk == 1 and (self.grid.rows_of_a or len(panels) == 1) and \
            self.depth[0] < self.depth[1]
        if not fused:
            self._room("sums", Region(self.rows, self.columns))
        chunked = self.overlap != "none"
        for position, panel in enumerate(panels):
            if position == 0 or not chunked:
                self.steps += [*panel.pack, *panel.fetch]
            ahead = panels[position + 1] if chunked and position + 1 < len(panels) else None
            self.steps += ahead.pack if ahead else ()
            first = position == 0 or self.grid.rows_of_a
            if self.grid.pk > 1 and position + 1 == len(panels):
                self._reduce_scatter(panel, first)
            else:
                self.steps.append(Multiply(panel.a, panel.b, panel.region, panel.depth, first, fused))
            self.steps += ahead.fetch if ahead else ()
            if not chunked:
                self.steps.append(Wait())
        if not fused:
            self.steps.append(Finish(self.grid.region("c", self.rank)))
        return Schedule(self.grid, self.rank, tuple(self.steps), self.buffers)

    # Panels.

    def _panels(self) -> Iterator[_Panel]:
        if self.grid.pc == self.grid.pr == 1:
            yield _Panel("a", "b", Region(self.rows, self.columns), self.depth)
        elif self.grid.pr == 1:
            yield from self._gathered("a", self.grid.pc, self.column)
        elif self.grid.pc == 1:
            yield from self._gathered("b", self.grid.pr, self.row)
        else:
            yield from self._summa()

    def _summa(self) -> Iterator[_Panel]:
        """Panels along K, each in one rank's block of A and one's of B; both are broadcast."""
        grid = self.grid
        across = tuple(grid.rank_at(self.row, column, self.layer) for column in range(grid.pc))
        down = tuple(grid.rank_at(row, self.column, self.layer) for row in range(grid.pr))
        position = 0
        for owner_a in range(grid.pc):
            for owner_b in range(grid.pr):
                a, b = split(self.depth, grid.pc, owner_a), split(self.depth, grid.pr, owner_b)
                for depth in _pieces((max(a[0], b[0]), min(a[1], b[1])), self.panel):
                    panel = _Panel(f"a{position % 2}", f"b{position % 2}", Region(self.rows, self.columns), depth)
                    whole_a, whole_b = Region(self.rows, depth), Region(depth, self.columns)
                    pack = *self._packed("a", whole_a, panel.a, across[owner_a]), \
                        *self._packed("b", whole_b, panel.b, down[owner_b])
                    fetch = *self._broadcast(panel.a, whole_a, across[owner_a], across), \
                        *self._broadcast(panel.b, whole_b, down[owner_b], down)
                    yield _Panel(panel.a, panel.b, panel.region, depth, pack, fetch)
                    position += 1

    def _packed(self, source: str, region: Region, target: str, owner: int) -> tuple[Step, ...]:
        self._room(target, region)
        return (Pack(source, region, target),) if owner == self.rank and region.size else ()

    def _broadcast(self, buffer: str, region: Region, root: int, ranks: tuple[int, ...]) -> tuple[Step, ...]:
        size = region.size * self.grid.dtype.bytes
        return (Broadcast(buffer, region, root, ranks, size),) if size else ()

    def _gathered(self, operand: str, ranks: int, here: int) -> Iterator[_Panel]:
        """All-gather of one operand: own pieces first, then those of the ranks before, one after the other."""
        rounds = max(len(_pieces(self._piece(operand, owner), self.panel)) for owner in range(ranks))
        position = 0
        for number in range(rounds):
            for step in range(ranks):
                owner = (here - step) % ranks
                pieces = _pieces(self._piece(operand, owner), self.panel, rounds)
                # In a direct exchange the own piece leaves again and again, so that it has a buffer of its own.
                own = f"{operand}2" if step == 0 and self.order == "direct" else f"{operand}{position % 2}"
                panel = self._gathered_panel(operand, pieces[number], own)
                pack = self._packed(operand, _panel_region(panel, operand), own, self.rank) if step == 0 else ()
                fetch = tuple(self._passed_on(operand, ranks, here, number, step, position, rounds))
                yield _Panel(panel.a, panel.b, panel.region, panel.depth, pack, fetch)
                position += 1

    def _gathered_panel(self, operand: str, piece: tuple[int, int], buffer: str) -> _Panel:
        if self.grid.rows_of_a:
            panel = _Panel(buffer, "b", Region(piece, self.columns), self.depth)
        else:
            a, b = (buffer, "b") if operand == "a" else ("a", buffer)
            panel = _Panel(a, b, Region(self.rows, self.columns), piece)
        self._room(buffer, _panel_region(panel, operand))
        return panel

    def _passed_on(self, operand: str, ranks: int, here: int, number: int, step: int, position: int,
                   rounds: int) -> Iterator[Step]:
        """Messages that bring the piece of ``step``: from the neighbour, or from its owner."""
        if step == 0:
            return
        region = [self._piece_region(operand, (here - back) % ranks, number, rounds) for back in (step - 1, 0, step)]
        passed, own, wanted = region
        size = self.grid.dtype.bytes
        behind, ahead = (1, 1) if self.order == "ring" else (step, step)
        buffer, previous = f"{operand}{position % 2}", f"{operand}{(position - 1) % 2}"
        if self.order == "direct":
            previous, passed = f"{operand}2", own
        if wanted.size:
            yield Receive(buffer, wanted, self._along(operand, here - behind, ranks), wanted.size * size)
        if passed.size:
            yield Send(previous, passed, self._along(operand, here + ahead, ranks), passed.size * size)

    def _along(self, operand: str, position: int, ranks: int) -> int:
        """The rank at a position along the ranks that share an operand."""
        at = position % ranks
        return self.grid.rank_at(self.row, at, self.layer) if operand == "a" else \
            self.grid.rank_at(at, self.column, self.layer)

    def _piece(self, operand: str, owner: int) -> tuple[int, int]:
        """Share of one rank in the dimension that an operand is split along."""
        if self.grid.rows_of_a:
            return split(self.rows, self.grid.pc, owner)
        return split(self.depth, self.grid.pc if operand == "a" else self.grid.pr, owner)

    def _piece_region(self, operand: str, owner: int, number: int, rounds: int) -> Region:
        piece = _pieces(self._piece(operand, owner), self.panel, rounds)[number]
        if self.grid.rows_of_a:
            return Region(piece, self.depth)
        return Region(self.rows, piece) if operand == "a" else Region(piece, self.columns)

    # Reduce-scatter.

    def _reduce_scatter(self, panel: _Panel, first: bool) -> None:
        """The last product, by bands of C's rows for one rank along pk each; their sums end with that rank."""
        layers, grid = self.grid.pk, self.grid
        bands = [Region(split(self.rows, layers, (self.layer - 1 - step) % layers), self.columns)
                 for step in range(layers)]
        peers = [grid.rank_at(self.row, self.column, (self.layer - 1 - step) % layers) for step in range(layers)]
        if self.overlap == "chunked" and self.order == "ring":
            self._ring(panel, first, bands)
            return
        if self.overlap == "chunked":
            products = [Multiply(panel.a, panel.b, band, panel.depth, first) for band in bands]
        else:
            products = [Multiply(panel.a, panel.b, panel.region, panel.depth, first,
                                 signals=tuple(bands) if self.signalled else ())]
        if self.order == "ring":
            self.steps += products
            self._ring(None, first, bands)
            return
        own, size = bands[-1], bands[-1].size * SUM_BYTES
        # Of the band of this rank, the rank after this one is added first.
        order = [grid.rank_at(self.row, self.column, (self.layer + 1 + step) % layers) for step in range(layers - 1)]
        for number, peer in enumerate(order):
            self._room(f"r{number}", own)
            if size:
                self.steps.append(Receive(f"r{number}", own, peer, size))
        sends = [Send("sums", band, peer, band.size * SUM_BYTES)
                 for band, peer in zip(bands[:-1], peers[:-1], strict=True) if band.size]
        if len(products) == 1:
            self.steps += [*products, *sends]
        else:  # each band leaves while the next is multiplied
            self.steps += products[:1]
            for number, product in enumerate(products[1:]):
                self.steps += [product, *(send for send in sends if send.region == bands[number] and send.region.size)]
        for number in range(1, layers - 1):
            self._add(f"r{number - 1}", f"r{number}", own)
        self._add(f"r{layers - 2}", "sums", own)

    def _ring(self, panel: _Panel | None, first: bool, bands: list[Region]) -> None:
        """Bands travel from rank to rank; each adds its own sums."""
        layers = self.grid.pk
        ahead = self.grid.rank_at(self.row, self.column, (self.layer + 1) % layers)
        behind = self.grid.rank_at(self.row, self.column, (self.layer - 1) % layers)
        for step, band in enumerate(bands):
            arriving = f"r{step % 2}"
            if step and band.size:
                self._room(arriving, band)
                self.steps.append(Receive(arriving, band, behind, band.size * SUM_BYTES))
            if panel is not None:
                self.steps.append(Multiply(panel.a, panel.b, band, panel.depth, first))
            if step and bands[step - 1].size:
                self.steps.append(Send("sums", bands[step - 1], ahead, bands[step - 1].size * SUM_BYTES))
            if step:
                self._add(arriving, "sums", band)

    def _add(self, source: str, target: str, region: Region) -> None:
        if region.size:
            self.steps.append(Add(source, target, region))

    def _room(self, buffer: str, region: Region) -> None:
        self.buffers[buffer] = max(self.buffers.get(buffer, 0), region.size)


def _panel_region(panel: _Panel, operand: str) -> Region:
    return Region(panel.region.rows, panel.depth) if operand == "a" else Region(panel.depth, panel.region.columns)


def _pieces(span: tuple[int, int], most: int | None, count: int = 0) -> list[tuple[int, int]]:
    """A range cut into equal pieces of at most ``most``, or into ``count`` pieces."""
    length = span[1] - span[0]
    if length <= 0 and not count:
        return []
    pieces = count or -(-length // (most or length))
    return [split(span, pieces, piece) for piece in range(pieces)]
