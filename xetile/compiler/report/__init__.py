"""Kernel report: resource use from the disassembly, and a performance prediction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from codegen.perf.isa import CATEGORIES, InstructionMix, KernelMix, read_mix
from codegen.perf.performance_model import RESOLUTION, LoopIteration, Prediction, predict, product_traffic, resident
from codegen.toolchain.ocloc import KernelFacts
from xegpu.support.errors import ArgumentError, ShapeError, XeError
from xegpu.support.location import Location
from xegpu.target.machine_model import MachineModel, find_machine
from xegpu.target.targets import Target
from xetile.compiler.report.cost import Work
from xetile.compiler.report.executed import executed_rows
from xetile.compiler.report.suggest_tile_sizes import Remedy
from xetile.compiler.report.table import Row, Table

if TYPE_CHECKING:
    from codegen.simulator.launch import Execution  # which needs packages that a report does not

_PACKAGES = ("xetile", "xegpu", "codegen")

USUAL_SHAPE = (4096, 4096, 4096)
"""The problem that a report predicts where none is named; its first two numbers for a kernel without a product."""
_TIME, _SEQUENTIAL = "predicted time", "time without any overlap"
_REPEAT = re.compile(r"dpasw?\.8x(\d)")


class Report:
    """Report of a kernel: facts of its disassembly, with a prediction.

    Args:
        facts: the compiled kernel.
        target: the device that it is compiled for.
        subgroups: subgroups of a work-group.
        work: what a work-group computes; None where the kernel's text is too far lowered to tell.
        remedy: finds tile sizes that avoid spills; None where the kernel's constants are not known.
        slow: accesses without block messages, and why, and functions that are not approximate, a sentence each.
        guarded: what arrays must have for the first of two loops over a batch to run; empty where there is one loop.

    Attributes:
        name: the kernel's name.
        registers: registers a thread.
        spill_size, private_size, slm_size: bytes; spills and private memory should both be zero.
        subgroups, lanes: subgroups of a work-group, work-items of a subgroup.
        mix: instructions of the whole kernel and of its hot loop.
        slow: accesses without block messages on a device that has them, and why, and functions in loops of products
            that may not be approximate, a sentence each.
        execution: what its last launch on a simulated GPU executed and moved; None without one.
    """

    def __init__(self, facts: KernelFacts, target: Target, subgroups: int, work: Work | None = None,
                 remedy: Callable[[], Remedy] | None = None, slow: Sequence[str] = (),
                 execution: Execution | None = None, guarded: Sequence[str] = ()) -> None:
        self.name, self.target, self.subgroups, self.work = facts.name, target, subgroups, work
        self.registers, self.spill_size = facts.grf_count, facts.spill_size
        self.private_size, self.slm_size = facts.private_size, facts.slm_size
        self.lanes = facts.simd_size or target.subgroup_size
        self.mix: KernelMix = read_mix(facts.asm)
        self._remedy, self.slow, self.execution = remedy, tuple(slow), execution
        self._guarded = tuple(guarded)

    @property
    def hot(self) -> InstructionMix:
        """Instruction mix of the hot loop, or of the kernel if it has no loop."""
        return self.mix.loop or self.mix.whole

    @property
    def loop(self) -> dict[str, int]:
        """Instruction counts by category of the hot loop, or of the kernel if it has none."""
        return dict(self.hot.categories)

    @property
    def density(self) -> float:
        """Fraction of the hot loop's instructions that are dpas."""
        return self.hot.density

    @cached_property
    def remedy(self) -> Remedy | None:
        """Tile sizes that avoid spills and private memory, found by compiling variants; None if there is no spill."""
        if not self.spill_size + self.private_size or self._remedy is None:
            return None
        return self._remedy()

    @property
    def dpas_rows(self) -> int:
        """Rows of results of the hot loop's dpas: eight each, fewer with a smaller repeat count."""
        return sum(int(found[1]) * count for opcode, count in self.hot.opcodes.items()
                   if (found := _REPEAT.match(opcode)))

    @property
    def unrolled(self) -> int:
        """Unroll factor: iterations of the author's loop in one of the machine code's."""
        if self.work is None or not self.work.flops or not self.mix.loop:
            return 1
        depth = 256 // self.work.depth
        if self.dpas_rows:
            return max(1, round(self.dpas_rows * self.lanes * depth * 2 / self.work.flops))
        multiplies = sum(count for opcode, count in self.hot.opcodes.items() if opcode.startswith("mad"))
        return max(1, round(multiplies * self.lanes * 2 / self.work.flops))

    @property
    def step(self) -> int:
        """K extent of one iteration of the machine code's loop; 0 for a kernel that is not one product."""
        return self.work.step * self.unrolled if self.work else 0

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations of a work-group per byte that it loads in a K step; 0 without a product."""
        if not self.work or not self.work.is_product or not self.work.tile:
            return 0.0
        return 2 * self.work.tile[0] * self.work.tile[1] * self.work.step / self.work.distinct

    def predict(self, shape: Sequence[int] | None = None, *, machine: str | MachineModel | None = None,
                grid: Sequence[int] | None = None, passes: int | None = None) -> Prediction:
        """Predict the time of a launch by :mod:`codegen.perf.performance_model`; not a measurement.

        Args:
            shape: (M, N, K) of C = A @ B; (M, N) of the result for a kernel without a loop.
            machine: the device, by name (``"max1550"``, ``"max1100"``, ``"b580"``, ``"a770"``) or as a record; by
                default the first that runs the target's code.
            grid, passes: for any other kernel: its work-groups, and how often each goes through the hot loop. Memory
                is then left out.

        Raises:
            ShapeError: the shape does not fit the kernel, or neither it nor a grid is given.
            TargetError: no figures are known for a device with this target.
        """
        try:
            return self._predicted(find_machine(machine, self.target.name), shape, grid, passes)
        except XeError as error:
            raise error.at(Location.of_caller(_PACKAGES)) from None

    def _predicted(self, found: MachineModel, shape: Sequence[int] | None, grid: Sequence[int] | None,
                   passes: int | None) -> Prediction:
        if grid is not None:
            return self._predict_launch(found, grid, passes)
        if shape is None:
            raise ShapeError("XT7150", f"a prediction of {self.name} needs a problem", "give its shape, such as "
                             "predict((4096, 4096, 4096)), or a launch: predict(grid=(16, 16), passes=128)")
        return self._predict_shape(found, tuple(shape))

    def _predict_launch(self, machine: MachineModel, grid: Sequence[int], passes: int | None) -> Prediction:
        counts = (*grid, 1, 1, 1)[:3]
        if not 1 <= len(grid) <= 3 or not _positive(counts) or not _positive((1 if passes is None else passes,)):
            raise ShapeError("XT7151", f"grid={grid!r}, passes={passes!r} describe no launch",
                             "give one to three positive integers, and a positive one: grid=(16, 16), passes=128")
        if passes is None and self.mix.loop:
            raise ShapeError("XT7152", f"{self.name} has a loop, and passes= does not say how often it runs",
                             "give passes=, for example of a product K // BK")
        groups, times = counts[0] * counts[1] * counts[2], passes or 1
        rows = self.dpas_rows * self.lanes * (256 // self.work.depth if self.work and self.work.depth else 0)
        return predict(machine, f"{' x '.join(map(str, grid))} work-groups, {times} passes", self._pass(),
                       work_groups=groups, passes=times, large=self.registers > 128, traffic=0.0,
                       flops=2.0 * rows * groups * self.subgroups * times)

    def _predict_shape(self, machine: MachineModel, shape: tuple[int, ...]) -> Prediction:
        work = self.work
        rank = 3 if work and work.is_product else 2
        if work is None or work.tile is None or work.result is None or not (work.is_product or not work.loops):
            raise ShapeError("XT7153",
                             f"{self.name} is neither one product nor without a loop, so that no shape tells how much "
                             "it computes", "describe the launch instead: predict(grid=(16, 16), passes=128)")
        if len(shape) != rank or not _positive(shape):
            letters = ("M", "N", "K")[:rank]
            raise ShapeError("XT7154", f"shape={shape} is not ({', '.join(letters)}), {rank} positive integers",
                             f"for example predict({USUAL_SHAPE[:rank]})")
        grid = ceil(shape[0] / work.tile[0]), ceil(shape[1] / work.tile[1])
        groups = grid[0] * grid[1]
        result = shape[0] * shape[1] * work.result.bits / 8
        tile = work.tile[0] * work.tile[1] * work.result.bits // 8
        passes, flops = 1, 0.0
        traffic = groups * (work.distinct + work.stored - tile) + result
        if work.is_product and work.a and work.b:
            passes = ceil(shape[2] / self.step)
            flops = 2.0 * shape[0] * shape[1] * shape[2]
            strips = work.tile[0] * shape[2] * work.a.bits / 8, work.tile[1] * shape[2] * work.b.bits / 8
            concurrent_groups = machine.cores * resident(machine, self.subgroups, self.registers > 128)
            traffic = product_traffic(machine, grid, strips, result, concurrent_groups) + \
                groups * (ceil(shape[2] / work.step) * work.beside + work.once)
        return predict(machine, " x ".join(map(str, shape)), self._pass(), work_groups=groups, passes=passes,
                       large=self.registers > 128, traffic=traffic, flops=flops)

    def _pass(self) -> LoopIteration:
        times = self.unrolled
        loaded, distinct = (self.work.loaded, self.work.distinct) if self.work else (0, 0)
        kinds, loop = self.hot.categories, self.mix.loop is not None
        messages = sum(kinds[kind] for kind in ("load_block2d", "store_block2d", "prefetch", "load", "store", "slm"))
        waits = times if loop and kinds["load_block2d"] + kinds["load"] and not kinds["prefetch"] else 0
        return LoopIteration(self.subgroups, self.dpas_rows, self.hot.total, loaded * times, distinct * times, messages,
                    self.hot.gathers + kinds["scratch"], kinds["atomic"], self.hot.opcodes["sync.bar"],
                    waits, self.mix.whole.total - self.hot.total, self.hot.alu_passes(self.target.register_bytes))

    def compare(self, *others: Report, tables: Sequence[Table] | None = None) -> Table:
        """Comparison table of this kernel and others; of two, the last column has the difference.

        Args:
            others: reports to set beside this one.
            tables: the reports' tables, this one's first, if they are for another problem than
                the default one.

        Raises:
            ArgumentError: there is nothing to compare with.
        """
        if not others or not all(isinstance(other, Report) for other in others):
            raise ArgumentError("XT7155", f"compare takes the reports to set beside that of {self.name}",
                                "for example a.report().compare(b.report())", Location.of_caller(_PACKAGES))
        reports = (self, *others)
        columns, shown = _columns(reports), tables or [r.table() for r in reports]
        joined = Table.side_by_side("side by side", columns, shown)
        same_target = len({report.target.name for report in reports}) == 1
        return replace(joined, notes=(*(_tied(columns, shown) if same_target else ()), *joined.notes))

    def table(self, shape: Sequence[int] | None = None, machine: str | MachineModel | None = None) -> Table:
        """Table of all facts, with the prediction for a problem, by default of 4096 x 4096 x 4096.

        Raises:
            ShapeError, TargetError: as :meth:`predict`, where a shape or a machine is named.
        """
        executed = [] if self.execution is None else executed_rows(self.execution)
        rows, notes = [*self._use(), *self._mix(), *executed, *self._step()], list(self._versions())
        prediction = self._prediction(shape, machine)
        if isinstance(prediction, str):
            notes.append(f"no prediction: {prediction}")
        else:
            rows += _predicted(prediction)
            notes += ["a prediction by a model, not a measurement; it assumes:", *prediction.assumptions]
        return Table(f"{self.name} for {self.target.name}", tuple(rows), (), self._warnings(), tuple(notes))

    def _prediction(self, shape: Sequence[int] | None, machine: str | MachineModel | None) -> Prediction | str:
        """Prediction, or the reason why there is none; with a shape or machine of the caller's, that is an error."""
        if shape is not None or machine is not None:
            return self.predict(shape or self.usual_shape(), machine=machine)
        try:
            return self.predict(self.usual_shape())
        except (ShapeError, ArgumentError, ValueError) as error:
            return str(getattr(error, "message", error))

    def usual_shape(self) -> tuple[int, ...]:
        """Default problem shape of the prediction."""
        return USUAL_SHAPE if self.work is None or self.work.is_product else USUAL_SHAPE[:2]

    def _warnings(self) -> tuple[str, ...]:
        if not self.spill_size + self.private_size:
            return self.slow
        spills = f"does not fit in {self.registers} registers: {self.spill_size} bytes of a thread are spilled, and " \
               f"{self.private_size} are in private memory"
        advice = "lower the tile sizes" if self.remedy is None else str(self.remedy)
        return (f"{spills}; {advice}", *self.slow)

    def _versions(self) -> tuple[str, ...]:
        """Note on the loop that is counted where a batch has two, and on the one that is not."""
        if not self._guarded or not self.mix.others:
            return ()
        other = max(self.mix.others, key=lambda mix: (mix.categories["dpas"], mix.total))
        count = "two" if len(self.mix.others) == 1 else "three"  # with one of single steps behind unrolled ones
        return (f"{count} loops go over the batch; the hot loop is the one for matrices that lie behind each other, "
                f"{', '.join(self._guarded)}; others are left to a loop of {other.total} instructions, of which "
                f"{other.categories['dpas']} are dpas ({other.density:.1%})",)

    def _use(self) -> list[Row]:
        return [Row("registers a thread", (self.registers,)),
                Row("spilled", (self.spill_size,), unit=" bytes"),
                Row("private memory", (self.private_size,), unit=" bytes"),
                Row("shared local memory", (self.slm_size,), unit=" bytes"),
                Row("subgroups a work-group", (self.subgroups,)),
                Row("lanes a subgroup", (self.lanes,))]

    def _mix(self) -> list[Row]:
        title = "instructions of the hot loop" if self.mix.loop else "instructions, no loop"
        mix = [Row(f"  {kind}", (count,)) for kind in CATEGORIES if (count := self.loop.get(kind, 0))]
        return [Row(title, (self.hot.total,)), *mix, Row("dpas of these", (self.density,), ".1%")]

    def _step(self) -> list[Row]:
        if self.work is None:
            return []
        scope = "a K step" if self.work.is_product else "a pass" if self.work.loops else "in all"
        rows = [Row(f"loaded {scope}, by all subgroups", (self.work.loaded,), unit=" bytes"),
                Row(f"distinct bytes {scope}", (self.work.distinct,), unit=" bytes")]
        if self.work.is_product:
            rows = [Row("K a step", (self.work.step,)), Row("K steps a pass of the loop", (self.unrolled,)), *rows,
                    Row("arithmetic intensity", (self.intensity,), ".1f", " operations a byte")]
        return rows

    def __str__(self) -> str:
        return str(self.table())

    def __rich__(self) -> Any:
        return self.table().__rich__()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _columns(reports: Sequence[Report]) -> list[str]:
    """Column heads that distinguish kernels: names, targets, or both; numbered where neither does."""
    choices: list[list[str]] = [[r.name for r in reports], [r.target.name for r in reports],
                                [f"{r.name} {r.target.name}" for r in reports],
                                [f"{r.name} ({i})" for i, r in enumerate(reports, 1)]]
    return next((heads for heads in choices if len(set(heads)) == len(heads)), choices[-1])


def _predicted(found: Prediction) -> list[Row]:
    rows = [Row(f"predicted for {found.shape}", (found.machine.description,)),
            Row("work-groups", (found.work_groups,)), Row("waves", (found.waves,))]
    rows += [Row(f"  clocks a pass, {name}", (clocks,), ",.0f") for name, clocks in found.clocks.items()]
    if found.bytes:
        rows.append(Row("  memory traffic", (found.bytes / 2**20,), ",.1f", " MB"))
    rows += [Row(_TIME, (found.time * 1e3,), ".4g", " ms"), Row(_SEQUENTIAL, (found.sequential * 1e3,), ".4g", " ms")]
    if found.flops:
        rows += [Row("predicted rate", (found.tflops,), ".4g", f" TFLOP/s, within {found.error:.0%}"),
                 Row("upper bound", (found.upper_bound,), ".4g", " TFLOP/s")]
    return [*rows, Row("bound by", (found.bound,))]


def _tied(columns: Sequence[str], tables: Sequence[Table]) -> tuple[str, ...]:
    """Note on the kernels whose predicted times the model cannot tell from the shortest one; none for one kernel."""
    times, sequential = (_times(columns, tables, label) for label in (_TIME, _SEQUENTIAL))
    tied = [column for column, time in times.items() if time <= min(times.values()) * (1 + RESOLUTION)]
    if len(tied) < 2:
        return ()
    return (f"predicted times of {' and '.join(tied)} are within {RESOLUTION:.0%}, which the model cannot tell apart; "
            f"{min(tied, key=sequential.__getitem__)} takes least without any overlap; "
            f"xt.tune times {'both' if len(tied) == 2 else 'all'}",)


def _times(columns: Sequence[str], tables: Sequence[Table], label: str) -> dict[str, float]:
    """Predicted times in a row of the tables, by column."""
    return {column: float(row.values[0]) for column, table in zip(columns, tables, strict=True) for row in table.rows
            if row.label == label and row.values[0] is not None}


def _positive(numbers: Sequence[Any]) -> bool:
    return all(type(number) is int and number > 0 for number in numbers)
