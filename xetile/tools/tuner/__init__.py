"""Tuner ``xt.tune``: search for the fastest configuration of a kernel for the arguments of one call."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from codegen.runtime.build_worker import build_all
from codegen.runtime.progress import progress_bar
from codegen.runtime.synchronize import finish
from codegen.runtime.usm import UsmArray, scratch_copy
from codegen.toolchain import disk_cache, ocloc
from xegpu.support.errors import ArgumentError, XeError
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report.cost import trip_count
from xetile.frontend.control_flow.frames import is_opaque_module
from xetile.jit.base import BaseKernel
from xetile.runtime.device_executor import DeviceExecutor
from xetile.runtime.executors import Executor, select_executor
from xetile.runtime.grid import Grid
from xetile.runtime.machine_arena import ArenaArray
from xetile.tools.tuner.result import Outcome, Result, is_tied
from xetile.tools.tuner.space import Configuration, Space, configurations, seconds_of
from xetile.tools.tuner.timing import Series, compare

_KIND = "timing"
_COMPILER = ("xetile", "xegpu", "codegen", "xdsl")
"""Packages whose own failures are no refusals of an author's."""
_BUILD_SECONDS = 300.0
_BUILD_SHARE = 0.75
"""Part of the budget after which building ends, so that the built candidates can be timed."""


@dataclass(frozen=True)
class Candidate:
    """Configuration that lowers: its code and its launch."""

    configuration: Configuration
    compiled: CompiledKernel
    grid: Grid


def tune(kernel: BaseKernel, args: Sequence[Any], space: Space, *, grid: Any = None, where: Any = None,
         target: str | Target | None = None, by: str = "time", budget: float | str = "30s",
         processes: int | None = None, final: bool = True, progress: bool = True) -> Result:
    """Find the fastest configuration of a kernel's constants.

    What the kernel itself, the target's tables and the register budget rule out is never built. The rest is built in
    processes of their own and timed in turns, until the best one's confidence interval is narrow; what cannot win any
    more is dropped. The kernel writes copies of the arrays that it writes; at the end it runs once with the best
    configuration on the arrays of the call. Times are cached on disk, for each configuration, shapes, device and
    driver, so that another configuration costs one timing.

    Args:
        kernel: the kernel.
        args: the arguments of a call; for ``by="prediction"`` also ``xt.Spec``.
        space: for each constant the values to try, of which all combinations are tried; or a list of configurations.
        grid: as in ``kernel[grid]``, or a function of the constants: ``lambda BM, BN, **_: (M // BM, N // BN)``. None
            for the decorator's.
        where, target: as in ``kernel.on``; by default the arrays decide.
        by: ``"time"``, or ``"prediction"``: the model of ``lower(...).report()``, where there is no device; with
            ``where``, those that the model cannot tell from the best one are timed there.
        budget: the time to spend on building and timing: seconds, or ``"30s"``, ``"500ms"``, ``"2min"``. At three
            quarters of it building ends, and the table says what was not built; one configuration is built always.
        processes: how many programs are built at a time, by default one a core.
        final: whether the best configuration runs on the arrays at the end.
        progress: whether progress bars are shown, if rich is installed and standard error is a terminal.

    Raises:
        ArgumentError: the space or the budget is none, or ``by`` is unknown.
        TargetError: every configuration fails and ``final`` asks for a run; it lists the reasons.
        ToolError: predictions need Intel's offline compiler, and it is not installed.
    """
    with AtTheCall():
        start, slower = time.perf_counter(), []
        _check_request(kernel, by)
        every, seconds = configurations(space, _constants(kernel), kernel.name), seconds_of(budget)
        kernel, args = kernel.flattened(args) or (kernel, args)
        arguments = kernel.bind_arguments(args)
        if by == "prediction":
            device = find_target(target)
            outcomes = _predictions(kernel, every, arguments, args, grid, device, progress)
            predicted = _tuning_result(kernel, device.name, by, outcomes, start)
            if where is None or len(predicted.tied) < 2:
                return predicted
            every, by = [dict(outcome.configuration) for outcome in predicted.tied], "time"
            slower = [replace(outcome, dropped=outcome.seconds is not None) for outcome in predicted.outcomes
                      if outcome not in predicted.tied]
        for argument in arguments:
            argument.check_exists()
        executor = select_executor(kernel.fixed_target, where, target, arguments)
        copied_in = executor.copy_in(arguments)
        candidates, outcomes = _candidates(kernel, every, copied_in, args, grid, executor.target, progress)
        outcomes += [*_timed(executor, candidates, copied_in, seconds, processes, progress), *slower]
        result = _tuning_result(kernel, executor.device, by, outcomes, start)
        if final:
            kernel.on(where, target=target)[_grid(kernel, grid, result.best, args)](*args, **result.best)
        return result


def _check_request(kernel: BaseKernel, by: str) -> None:
    """Check the kernel and the kind of timing.

    Raises:
        ArgumentError: it is no kernel, or ``by`` is unknown.
    """
    if not isinstance(kernel, BaseKernel):
        wrapped = getattr(kernel, "kernel", None)  # type: ignore[unreachable]
        raise ArgumentError("XT7100", f"xt.tune takes a kernel, not {shown(kernel)}",
                            "pass the kernel that @xt.autotune decorates, its .kernel"
                            if isinstance(wrapped, BaseKernel) else
                            "decorate it with @xt.kernel")
    if by not in ("time", "prediction"):
        raise ArgumentError("XT7106", f"by={by!r} is not a ranking of configurations", 'use "time" or "prediction"')


def _check_sizes(arguments: Sequence[Argument]) -> None:
    """Check that the problem size is known, for a prediction.

    Raises:
        ArgumentError: an array has sizes that are known at run time only.
    """
    unknown = next((argument for argument in arguments if argument.rank is not None and None in argument.shape), None)
    if unknown is not None:
        sizes = tuple(4096 if size is None else size for size in unknown.shape)
        raise ArgumentError("XT7108", f"{unknown.name} is described as {unknown.shape}, and a prediction is for one "
                            "size", f"give the sizes of the problem: xt.Spec({sizes}, {unknown.dtype.name!r})")


def shown(thing: object) -> str:
    """Description of an argument that is no kernel: a function by its name."""
    name = getattr(thing, "__name__", None)
    return repr(thing) if name is None or not callable(thing) else f"the {type(thing).__name__} {name}"


def _constants(kernel: BaseKernel) -> list[str]:
    names = getattr(kernel, "_constants", {})
    return list(names)


def _grid(kernel: BaseKernel, grid: Any, configuration: Configuration, args: Sequence[Any]) -> Grid:
    constants = kernel.all_constants(configuration)
    return kernel.evaluate_grid(grid(**constants) if callable(grid) else grid, args, configuration)


def _candidates(kernel: BaseKernel, every: Sequence[Configuration], arguments: Sequence[Argument], args: Sequence[Any],
                grid: Any, target: Target, progress: bool) -> tuple[list[Candidate], list[Outcome]]:
    """Configurations that lower for a target, and the others with their reasons."""
    found, failures = [], []
    with progress_bar("lowering", len(every), is_wanted=progress) as advance:
        for configuration in every:
            try:
                compiled = kernel.compile(arguments, target, configuration, None)
                assert compiled.emitted.text
                found.append(Candidate(configuration, compiled, _grid(kernel, grid, configuration, args)))
            except XeError as error:
                failures.append(Outcome(configuration, stage="tables", reason=str(error)))
            except (AssertionError, ValueError) as error:  # the author's function refuses its constants
                if not _is_raised_by(kernel, error):
                    raise
                failures.append(Outcome(configuration, stage="tables", reason=_refusal(error)))
            advance(1)
    return found, failures


def _is_raised_by(kernel: BaseKernel, error: Exception) -> bool:
    """Whether a kernel's author raises an error, also by a call of Python's library or of NumPy; not this package."""
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        module = frame.f_globals.get("__name__", "")
        if module == kernel.__module__ or not is_opaque_module(module):
            return True
        if module.partition(".")[0] in _COMPILER:
            return False
    return False


def _refusal(error: Exception) -> str:
    """An error that the author's function raises: what it says, else the line that raises it."""
    said = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
    return f"{type(error).__name__}: {said}"


def _tuning_result(kernel: BaseKernel, device: str, by: str, outcomes: Sequence[Outcome], start: float) -> Result:
    tied = {id(outcome) for outcome in outcomes if by == "prediction" and is_tied(outcome, outcomes)}
    ordered = sorted(outcomes, key=lambda o: (o.seconds is None, o.dropped, id(o) not in tied,
                                              o.sequential if id(o) in tied else o.seconds or 0.0))
    return Result(kernel.name, device, by, tuple(ordered), time.perf_counter() - start)


def _predictions(kernel: BaseKernel, every: Sequence[Configuration], arguments: Sequence[Argument],
                 args: Sequence[Any], grid: Any, target: Target, progress: bool) -> list[Outcome]:
    """Outcomes of all configurations by the performance model.

    Raises:
        ArgumentError: an array has sizes that are known at run time only.
        ToolError: Intel's offline compiler is not installed.
    """
    _check_sizes(arguments)
    ocloc.find_ocloc()
    candidates, outcomes = _candidates(kernel, every, arguments, args, grid, target, progress)
    with progress_bar("predicting", len(candidates), is_wanted=progress) as advance:
        for candidate in candidates:
            outcomes.append(_predicted(candidate, arguments))
            advance(1)
    return outcomes


def _predicted(candidate: Candidate, arguments: Sequence[Argument]) -> Outcome:
    """Predicted time of a configuration; none if it spills, as the model has no spills."""
    configuration = candidate.configuration
    try:
        report = candidate.compiled.report()
        if spilled := report.spill_size + report.private_size:
            return Outcome(configuration, stage="spill", reason=f"{spilled} bytes of registers are spilled to memory")
        passes = trip_count(candidate.compiled.function, [argument.shape for argument in arguments])
        if passes is not None:
            passes = max(1, ceil(passes / report.unrolled))
        found = report.predict(grid=candidate.grid, passes=passes)
        return Outcome(configuration, found.time, how="predicted", sequential=found.sequential)
    except XeError as error:
        return Outcome(configuration, stage="build", reason=str(error))


def _timed(executor: Executor, candidates: Sequence[Candidate], copied_in: Sequence[Argument], budget: float,
           processes: int | None, progress: bool) -> list[Outcome]:
    start = time.perf_counter()
    keys = [_key(executor, candidate, copied_in) for candidate in candidates]
    kept = [_cached_time(key) for key in keys]
    outcomes = [replace(old, configuration=candidate.configuration)
                for candidate, old in zip(candidates, kept, strict=True) if old is not None]
    fresh = [(candidate, key) for candidate, key, old in zip(candidates, keys, kept, strict=True) if old is None]
    built, failures = _built(executor, fresh, budget, processes, progress, needed=not outcomes)
    runs, keys_of_runs, ready = [], [], []
    for candidate, key in built:
        run = _runner(executor, candidate, _scratch(candidate.compiled.written, copied_in, executor))
        try:
            run(1)  # warms up
        except XeError as error:
            failures.append(Outcome(candidate.configuration, stage="run", reason=str(error)))
            continue
        runs.append(run)
        keys_of_runs.append(key)
        ready.append(candidate)
    series = compare(runs, budget - (time.perf_counter() - start), progress=progress)
    for candidate, key, one in zip(ready, keys_of_runs, series, strict=True):
        outcome = Outcome(candidate.configuration, one.median, _finite(one), len(one.samples), "timed", one.dropped)
        _store_time(key, outcome)
        outcomes.append(outcome)
    return outcomes + failures


def _finite(one: Series) -> tuple[float, float]:
    low, high = one.interval
    return (min(one.samples), max(one.samples)) if high == float("inf") else (low, high)


_Fresh = tuple[Candidate, disk_cache.Key]


def _built(executor: Executor, fresh: Sequence[_Fresh], budget: float, processes: int | None, progress: bool, *,
           needed: bool) -> tuple[list[_Fresh], list[Outcome]]:
    """Build candidates within the budget's share: in worker processes, into the cache, or else in this one.

    Args:
        needed: whether one is built even if the budget ends before.
    """
    if not isinstance(executor, DeviceExecutor):
        return list(fresh), []
    count = os.cpu_count() or 1 if processes is None else processes
    seconds = min(_BUILD_SHARE * budget, _BUILD_SECONDS)
    in_workers = disk_cache.is_on() and count > 1 and len(fresh) > 1
    errors = _errors_of_workers(executor, fresh, seconds, count, progress) if in_workers else \
        _errors_of_builds(executor, fresh, seconds, progress)
    first_late = next((i for i, error in enumerate(errors) if error is None), None)
    if needed and first_late is not None and "" not in errors:
        errors[first_late] = _error_of_build(executor, fresh[first_late])
    late = f"{len(fresh) - errors.count(None)} of {len(fresh)} were built in {seconds:g} s"
    failures = [Outcome(candidate.configuration, stage="budget" if error is None else "build", reason=error or late)
                for (candidate, _), error in zip(fresh, errors, strict=True) if error != ""]
    return [pair for pair, error in zip(fresh, errors, strict=True) if error == ""], failures


def _errors_of_workers(executor: DeviceExecutor, fresh: Sequence[_Fresh], seconds: float, count: int,
                       progress: bool) -> list[str | None]:
    """Errors that :func:`build_all` reports of the candidates' programs."""
    where = executor.queue.sycl_device.filter_string
    programs = [executor.program(candidate.compiled) for candidate, _ in fresh]
    jobs = [(where, program.source, program.options, program.name) for program in programs]
    return build_all(jobs, count, seconds, progress=progress)


def _errors_of_builds(executor: DeviceExecutor, fresh: Sequence[_Fresh], seconds: float,
                      progress: bool) -> list[str | None]:
    """Error texts of builds in this process, empty on success, None where the time ended first."""
    end = time.perf_counter() + seconds
    errors: list[str | None] = []
    with progress_bar("building", len(fresh), is_wanted=progress) as advance:
        for pair in fresh:
            errors.append(_error_of_build(executor, pair) if time.perf_counter() < end else None)
            advance(1)
    return errors


def _error_of_build(executor: DeviceExecutor, pair: _Fresh) -> str:
    try:
        executor.build(pair[0].compiled)
    except XeError as error:
        return str(error)
    return ""


def _scratch(outputs: Sequence[int], copied_in: Sequence[Argument], executor: Executor) -> tuple[Argument, ...]:
    """Arguments with copies of the arrays that the kernel writes."""
    return tuple(replace(argument, source=_copied(argument.source)) if position in outputs else argument
                 for position, argument in enumerate(copied_in))


def _copied(source: Any) -> Any:
    if isinstance(source, ArenaArray):
        return source.copy()
    return scratch_copy(source) if isinstance(source, UsmArray) else np.copy(source)


def _runner(executor: Executor, candidate: Candidate, arguments: Sequence[Argument]) -> Callable[[int], None]:
    def run(times: int) -> None:
        for _ in range(times):
            executor.run(candidate.compiled, arguments, candidate.grid)
        if isinstance(executor, DeviceExecutor):
            finish(executor.queue)

    return run


def _key(executor: Executor, candidate: Candidate, copied_in: Sequence[Argument]) -> disk_cache.Key:
    """Cache key of a time: all that it depends on."""
    compiled = candidate.compiled
    sizes = [(str(a.dtype), a.shape, a.strides, a.source if a.kind == "number" else None) for a in copied_in]
    driver = executor.queue.sycl_device.driver_version if isinstance(executor, DeviceExecutor) else np.__version__
    return disk_cache.key_of(_KIND, compiled.emitted.text, compiled.emitted.options, repr((candidate.grid, sizes)),
                             executor.device, type(executor).__name__, driver)


def _cached_time(key: disk_cache.Key) -> Outcome | None:
    data = disk_cache.find(key) if disk_cache.is_on() else None
    if data is None:
        return None
    seconds, low, high, samples, dropped = json.loads(data)
    return Outcome({}, seconds, (low, high), samples, "kept", dropped)


def _store_time(key: disk_cache.Key, outcome: Outcome) -> None:
    if disk_cache.is_on() and outcome.interval is not None:
        record = [outcome.seconds, *outcome.interval, outcome.samples, outcome.dropped]
        disk_cache.keep(key, json.dumps(record).encode())
