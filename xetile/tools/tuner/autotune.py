"""``@xt.autotune``: decorator of kernels that are tuned at the first call for arguments of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from xegpu.support.errors import ArgumentError
from xegpu.target.targets import Target
from xetile.compiler.arguments import AtTheCall
from xetile.frontend.constants import hashable
from xetile.jit.base import BaseKernel
from xetile.jit.kernel import Kernel
from xetile.runtime.executors import select_executor
from xetile.runtime.launch_plan import LaunchEvent
from xetile.tools.tuner import shown, tune
from xetile.tools.tuner.result import Result
from xetile.tools.tuner.space import Configuration, Space, configurations, seconds_of


class Tuned:
    """Autotuned kernel: ``tuned[grid](*args)`` launches the best configuration for such arguments.

    Attributes:
        kernel: the kernel.
        results: the tuner's results, for each signature of arguments and device.
    """

    def __init__(self, kernel: BaseKernel, space: Space, key: Sequence[str] | None, budget: float | str,
                 by: str) -> None:
        if not isinstance(kernel, BaseKernel):
            raise ArgumentError("XT7100", f"@xt.autotune goes above a kernel, not above {shown(kernel)}",
                                "write it above the line @xt.kernel")
        strange = next((name for name in key or () if name not in kernel.parameters), None)
        if strange is not None:
            raise ArgumentError("XT7101", f"the key names {strange}, which is not an argument of {kernel.name}",
                                f"its arguments are {', '.join(kernel.parameters)}")
        self._space = self._configurations(space, kernel)
        seconds_of(budget)
        self.kernel, self._key, self._budget, self._by = kernel, key, budget, by
        self.results: dict[Any, Result] = {}
        self.__name__, self.__doc__ = kernel.name, kernel.__doc__
        self.__module__ = kernel.__module__
        self.__qualname__ = getattr(kernel, "__qualname__", kernel.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The autotuned kernel itself, as of a function."""
        return self

    def __reduce__(self) -> str:
        """The name by which ``pickle`` finds it in its module."""
        return self.__qualname__

    @staticmethod
    def _configurations(space: Space, kernel: BaseKernel) -> list[Configuration]:
        return configurations(space, list(getattr(kernel, "_constants", {})), kernel.name)

    def __repr__(self) -> str:
        return f"<{self.kernel.name}, tuned over {len(self._space)} configurations>"

    def __getitem__(self, grid: Any) -> Callable[..., LaunchEvent]:
        return partial(self._launch, None, None, grid)

    def __call__(self, *args: Any, **constants: Any) -> LaunchEvent:
        """Launch with the grid that the kernel's decorator gives."""
        return self._launch(None, None, None, *args, **constants)

    def on(self, where: Any, *, target: str | Target | None = None) -> TunedAt:
        """Autotuned kernel bound to ``where``."""
        return TunedAt(self, where, target)

    def best(self, *args: Any, grid: Any = None, where: Any = None,
             target: str | Target | None = None, **constants: Any) -> Configuration:
        """Best configuration for such arguments; tunes if there is none yet.

        Args:
            args: the arguments of a call.
            grid, where, target: as in :func:`tune`.
            constants: constants of the call, which have these values in all configurations.

        Raises:
            ArgumentError: the kernel has no such constant.
            TargetError: every configuration fails.
        """
        return self._best(args, constants, grid, where, target)

    def _best(self, args: tuple[Any, ...], constants: Configuration, grid: Any, where: Any,
              target: str | Target | None) -> Configuration:
        space = self._space if not constants else \
            self._configurations([{**configuration, **constants} for configuration in self._space], self.kernel)
        if len(space) == 1:
            return dict(space[0])
        kernel, args = self.kernel.flattened(args) or (self.kernel, args)
        arguments = kernel.bind_arguments(args)
        executor = select_executor(self.kernel.fixed_target, where, target, arguments)
        named = self._key if self._key is not None else self.kernel.parameters
        key = (executor.device, executor.target.name, *(
            (a.name, a.dtype, a.shape, a.source if a.kind == "number" else None)
            for a in arguments if re.split(r"[.\[]", a.name)[0] in named),  # leaves of a structure are P.x and P[0]
            *((name, hashable(constants[name], name)) for name in sorted(constants)))
        if key not in self.results:
            self.results[key] = tune(kernel, args, space, grid=grid, where=where, target=target, by=self._by,
                                     budget=self._budget, final=False)
        return self.results[key].best

    def _launch(self, where: Any, target: str | Target | None, grid: Any, /, *args: Any,
                **constants: Any) -> LaunchEvent:
        with AtTheCall():
            best = self._best(args, constants, grid, where, target)
            counts = grid(**self.kernel.all_constants(best)) if callable(grid) else grid
            return self.kernel.on(where, target=target)[counts](*args, **best)

    def lower(self, *args: Any, **options: Any) -> Any:
        """Lower the kernel as :meth:`Kernel.lower` does, with constants of the author's choice."""
        return self.kernel.lower(*args, **options)


class TunedAt:
    """Autotuned kernel bound to an executor."""

    def __init__(self, tuned: Tuned, where: Any, target: str | Target | None) -> None:
        self._launch = partial(tuned._launch, where, target)

    def __getitem__(self, grid: Any) -> Callable[..., LaunchEvent]:
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **constants: Any) -> LaunchEvent:
        """Launch with the grid that the kernel's decorator gives."""
        return self._launch(None, *args, **constants)


def autotune(space: Space, *, key: Sequence[str] | None = None, budget: float | str = "30s",
             by: str = "time") -> Callable[[Kernel], Tuned]:
    """Decorator that tunes a kernel at its first call: ``@xt.autotune(space)`` above ``@xt.kernel``.

    Calls with arguments of the same signature, and the same constants, use the configuration that was found. A constant
    that a call gives has its value in all configurations. A space of one configuration is used without tuning.

    Args:
        space: for each constant the values to try, of which all combinations are tried; or a list of configurations.
        key: the arguments whose types, shapes and values make a kind of their own; by default all of them.
        budget: the time to spend on timing, as for :func:`tune`.
        by: ``"time"`` or ``"prediction"``.

    Raises:
        ArgumentError: the space is none of this kernel, or ``key`` names no argument.
    """
    def make(kernel: Kernel) -> Tuned:
        with AtTheCall():
            return Tuned(kernel, space, key, budget, by)

    return make
