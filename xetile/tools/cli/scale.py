"""``xetile scale``: predicted efficiency of a distributed product over numbers of ranks."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from xegpu.ir import dtypes
from xegpu.support.errors import ArgumentError
from xetile.compiler.report.table import Row, Table
from xetile.distributed.grid import Grid
from xetile.distributed.prediction import MACHINES, PANEL, Prediction, predict, scaling
from xetile.tools.cli.output import show

_RANKS = (1, 2, 4, 12, 24, 96, 384, 1200, 2400, 5000, 10000)
_TYPES = ("bf16", "f16", "f32", "i8", "u8")


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("scale", help="how a product over many ranks should scale: predictions",
                                 description="Predicts efficiency and time of a product over MPI ranks, each number of "
                                             "them on its best grid. Nothing is measured, and no MPI is needed.")
    for name, what in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "columns of A, rows of B")):
        parser.add_argument(name, type=int, metavar=name.upper(), help=what)
    parser.add_argument("--machine", choices=MACHINES, default="aurora", help="the machine (default: aurora)")
    parser.add_argument("--dtype", choices=_TYPES, default="bf16", help="element type of A and B (default: bf16)")
    parser.add_argument("--ranks", help=f"numbers of ranks with commas between (default: {','.join(map(str, _RANKS))})")
    parser.add_argument("--grid", metavar="PR,PC,PK", help="one grid instead, in all detail")
    parser.add_argument("--simgrid", action="store_true", help="simulate all ranks by SimGrid, too: 1024 at most")
    parser.add_argument("--plot", metavar="FILE.png", help="draw efficiency over ranks (matplotlib)")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Print the table, or the report of one grid, and draw.

    Raises:
        XeError: invalid numbers, or a picture that cannot be drawn.
    """
    dtype = dtypes.of(args.dtype)
    if min(args.m, args.n, args.k) < 1:
        raise ArgumentError("XT8061", f"a product of {args.m}x{args.k} by {args.k}x{args.n} has nothing to predict",
                            "give M, N and K of 1 or more, as in xetile scale 65536 65536 65536")
    if args.grid:
        shape = _numbers("--grid", args.grid)
        if len(shape) != 3:
            raise ArgumentError("XT8060", f"--grid {args.grid} has {len(shape)} numbers", "write --grid 2,2,1")
        found = [predict(Grid(*shape, m=args.m, n=args.n, k=args.k, dtype=dtype), args.machine, panel=PANEL)]
        print(found[0])
        if args.simgrid:
            print(f"simulated  {_simulated(found)[0]:,.2f} ms by SimGrid")
    else:
        ranks = _numbers("--ranks", args.ranks) if args.ranks else _RANKS
        found = scaling(args.m, args.n, args.k, dtype, args.machine, ranks)
        show(_table(found, _simulated(found) if args.simgrid else ()))
    if args.plot:
        from xetile.distributed.prediction.plot import plot

        plot(args.plot, found)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise ArgumentError("XT8060", f"{option} {text} is not a list of positive numbers",
                            f"write {option} {'2,2,1' if option == '--grid' else '1,12,96'}")
    return tuple(int(number) for number in text.split(","))


def _simulated(found: Sequence[Prediction]) -> tuple[float, ...]:
    """Milliseconds by a simulation of all ranks."""
    from xetile.distributed.prediction.simulation import simulate

    return tuple(simulate(each.grid, each.machine, panel=PANEL) * 1e3 for each in found)


def _table(found: Sequence[Prediction], simulated: tuple[float, ...] = ()) -> Table:
    """Table with a column for each number of ranks."""
    grid, machine = found[0].grid, found[0].machine
    rows = (
        Row("grid", tuple(" x ".join(map(str, each.grid.shape)) for each in found)),
        Row("GB received, each rank", tuple(each.received / 1e9 for each in found), ",.2f"),
        Row("GiB of memory, each rank", tuple(each.memory / (1 << 30) for each in found), ",.1f"),
        Row("predicted ms", tuple(each.seconds * 1e3 for each in found), ",.1f"),
        *([Row("ms by SimGrid", simulated, ",.1f")] if simulated else []),
        Row("predicted efficiency", tuple(each.efficiency for each in found), ".2f"),
        Row("efficiency, nothing hidden", tuple(each.exposed for each in found), ".2f"),
    )
    over = [str(each.grid.ranks) for each in found if each.memory > machine.memory]
    warnings = (f"more than the {machine.memory >> 30} GiB that a rank has: {', '.join(over)} ranks",) if over else ()
    return Table(f"{grid.m} x {grid.k} by {grid.k} x {grid.n}, {grid.dtype}, on {machine.description}", rows,
                 tuple(f"{each.grid.ranks}" for each in found), warnings,
                 ("Every figure is a prediction: no distributed product has run on a GPU.",))
