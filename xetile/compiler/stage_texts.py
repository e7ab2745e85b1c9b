"""Stages of a compiled kernel as MLIR text, each printed when it is first looked at.

Printing all stages of a kernel takes about as long as lowering it, and most who ask want one of them, or their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp


class StageTexts(Mapping[str, str]):
    """Mapping of the names of stages to their texts, in order.

    Args:
        modules: gives every stage as IR; it is asked again for a text that has not been printed yet, so that no IR is
            kept alive.
    """

    def __init__(self, modules: Callable[[], Mapping[str, ModuleOp]]) -> None:
        self._modules = modules
        self._names = tuple(modules())
        self._printed: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._printed:
            self._printed[name] = printed(self._modules()[name])
        return self._printed[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<stages {', '.join(self._names)}>"


def printed(module: ModuleOp) -> str:
    """A module as MLIR text that reads back."""
    from xetile.text.gpu_module import printed as text  # which a kernel that only runs does not need

    return text(module)
