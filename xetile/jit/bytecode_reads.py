"""Reads of a function: the variables that its bytecode loads from outside, with the chain of attributes behind each.

``config.tile.rows`` is one read. Local names for such a chain are followed (``c = config.tile``, ``import m as c``), as
are inner functions and comprehensions. A chain that ends in anything else, such as a call or an index, is the read of
the complete object.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib.util
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")
_DEREF = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_NEUTRAL = ("CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "PRECALL")
"""Instructions that leave the loaded object on top of the stack."""


class Absent:
    """Value of a variable that is not defined."""


@dataclass(frozen=True)
class Chain:
    """A variable and the attributes that are read from it.

    Attributes:
        get: returns the variable's present value, :class:`Absent` if there is none.
        shown: the variable, as messages name it.
        attributes: their names, in the order of access.
    """

    get: Callable[[], Any]
    shown: str
    attributes: tuple[str, ...] = ()

    def attribute(self, name: str) -> Chain:
        """The chain with one more attribute."""
        return Chain(self.get, self.shown, (*self.attributes, name))


@dataclass(frozen=True)
class _Step:
    """Effect of an instruction on a name.

    It is a ``"load"``, ``"attribute"``, ``"store"``, ``"global"``, ``"import"``, ``"from"``, or ``"other"``.
    """

    kind: str
    name: str = ""


def reads(function: FunctionType, bound: Mapping[str, Chain]) -> Iterator[Chain]:
    """Chains that a function reads from outside.

    Args:
        function: the function.
        bound: parameters whose argument is known, such as ``self`` of a bound method.
    """
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {name: Chain(functools.partial(_cell_value, cell), name) for name, cell in cells}
    yield from _chains(function.__code__, function.__globals__, {**known, **bound})


def _chains(code: CodeType, namespace: dict[str, Any], known: dict[str, Chain]) -> Iterator[Chain]:
    """Chains of a code object and those in it; ``known`` has the local and free variables that stand for chains."""
    steps = list(_steps(code, str(namespace.get("__package__") or "")))
    stores = Counter(step.name for step in steps if step.kind == "store")
    parameters = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount
                                  + bool(code.co_flags & inspect.CO_VARARGS)
                                  + bool(code.co_flags & inspect.CO_VARKEYWORDS)]
    aliases = {name for name, count in stores.items() if count == 1 and name not in parameters}
    known = {name: chain for name, chain in known.items() if not stores[name]}
    found: list[Chain] = []
    size = -1
    while size < len(known):  # again while names are found: a loop's body may read above the store
        size = len(known)
        found = [*_followed(steps, namespace, known, aliases)]
    yield from found
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            free = {name: known[name] for name in constant.co_freevars if name in known}
            yield from _chains(constant, namespace, free)


def _followed(steps: list[_Step], namespace: dict[str, Any], known: dict[str, Chain],
              aliases: set[str]) -> Iterator[Chain]:
    """Chains of one code object; local names for chains are added to ``known``."""
    chain: Chain | None = None
    module: Chain | None = None
    for step in (*steps, _Step("other")):
        if chain is not None and step.kind == "attribute":
            chain = chain.attribute(step.name)
            continue
        if chain is not None and step.kind == "store" and step.name in aliases:
            known[step.name] = chain
            chain = None
            continue
        if chain is not None and chain is not module:
            yield chain
        chain = None
        if step.kind == "global":
            chain = Chain(functools.partial(_global_value, namespace, step.name), step.name)
        elif step.kind == "load":
            chain = known.get(step.name)
        elif step.kind == "import":
            chain = module = Chain(functools.partial(_module, step.name), step.name)
        elif step.kind == "from" and module is not None:
            chain = module.attribute(step.name)


def _steps(code: CodeType, package: str) -> Iterator[_Step]:
    constants: list[Any] = [0, None]
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in _NEUTRAL:
            continue
        if name == "LOAD_CONST":
            constants = [constants[-1], value]
        # LOAD_METHOD is there up to 3.11; 3.12 and later load methods with LOAD_ATTR.
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            yield _Step("attribute", str(value))
        elif name in _GLOBAL and str(value).isidentifier():  # pytest's assertions read @pytest_ar, all of pytest
            yield _Step("global", str(value))
        elif name in _DEREF:
            yield _Step("load", str(value))
        elif name in ("STORE_DEREF", "DELETE_FAST", "DELETE_DEREF"):
            yield _Step("store", str(value))
        elif name == "IMPORT_NAME":
            level, names = constants  # the two constants below it on the stack; `import a.b` without names gives a
            full = importlib.util.resolve_name("." * level + str(value), package) if level else str(value)
            yield _Step("import", full if names or level else full.partition(".")[0])
        elif name == "IMPORT_FROM":
            yield _Step("from", str(value))
        elif "_FAST" in name:  # from 3.13 on, one instruction may load and store two variables
            kinds = re.findall("LOAD|STORE", name)
            variables = value if isinstance(value, tuple) else (value,)
            yield from (_Step(kind.lower(), str(each)) for kind, each in zip(kinds, variables, strict=False))
        else:
            yield _Step("other")


def _module(name: str) -> Any:
    return sys.modules.get(name, Absent)


def _global_value(namespace: dict[str, Any], name: str) -> Any:
    value = namespace.get(name, Absent)
    return getattr(builtins, name, Absent) if value is Absent else value


def _cell_value(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return Absent
