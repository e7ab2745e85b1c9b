"""References in prose: paths, tests, modules and stages that pages and docstrings name exist."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import xetile
from tests.test_docs import PAGES, ROOT
from xetile.compiler.pipeline import STAGES

PACKAGES = ("xegpu", "codegen", "xetile")
FOLDERS = (*PACKAGES, "tests", "docs", "benchmarks", "examples")
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""The pages of what is there; the change log names what was."""
EXPORTS = {"opencl", "upstream", "upstream-workgroup", "xegpu-older"}
"""Outputs that are chosen like stages: by ``xetile opt --to``, ``kernel.override`` and the emitter."""
FICTIONAL = {"gemm.mlir"}
"""Files that an author has, in examples of commands."""

_SPAN = re.compile(r"`([^`\s]+)`")
_STAGE = re.compile(r"\b(?:stage|pass) `([a-z][a-z0-9-]*)`|`([a-z][a-z0-9-]*)` (?:stage|pass)\b")
_ROLE = re.compile(r":(?:mod|class|func|data|meth|attr):`~?([^`]+)`")
_PATH = re.compile(rf"(?:(?:{'|'.join(FOLDERS)}|\.ci)/.*|[\w/-]+\.(?:py|md|cl|mlir|hpp|toml|yml))")


def _prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


@cache
def _files_of_name() -> set[str]:
    return {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")}


@cache
def _sources() -> str:
    return "\n".join(path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def _missing_path(reference: str, page: Path) -> bool:
    """Whether there is no such file, or no such test in it; a name without a folder may be that of any file."""
    path, _, test = reference.partition("::")
    path = path.rstrip("/")
    if "/" not in path and path in _files_of_name() | FICTIONAL:
        return False
    found = next((file for base in (ROOT, page.parent) for file in base.glob(path)), None)
    return found is None or (bool(test) and f"def {test.partition('[')[0]}(" not in found.read_text())


def _resolves(dotted: str) -> bool:
    """Whether a name with dots is that of a module, or of something in one."""
    parts = dotted.split(".")
    for count in range(len(parts) if parts[0] else 0, 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        return _has(thing, parts[count:])
    return False


def _has(thing: Any, names: list[str]) -> bool:
    for name in names:
        if not hasattr(thing, name) and name not in getattr(thing, "__annotations__", ()):
            return False
        thing = getattr(thing, name, None)
    return True


def _is_known(dotted: str) -> bool:
    """Whether a name with dots is Python's, or that of an operation or attribute of MLIR text."""
    dialect, _, name = dotted.partition(".")
    spelled = f'"{dotted}"' in _sources() or (dialect in ("xegpu", "xetile") and f'"{name}"' in _sources())
    return spelled or _resolves(dotted)


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.stem)
def test_paths_and_names_of_a_page(page: Path) -> None:
    missing = []
    for reference in _SPAN.findall(_prose(page)):
        if _PATH.fullmatch(reference):
            if _missing_path(reference, page):
                missing.append(reference)
        elif re.fullmatch(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+", reference) and not _is_known(reference):
            missing.append(reference)
    assert not missing


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.stem)
def test_stages_of_a_page(page: Path) -> None:
    named = {name for pair in _STAGE.findall(_prose(page)) for name in pair if name}
    assert not named - {*STAGES, *EXPORTS}


def _modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def _missing_roles(module: str, path: Path) -> Iterator[str]:
    """Targets of roles, as ``:mod:``, that are neither full names, nor names of the module or the language."""
    targets = _ROLE.findall(path.read_text())
    if not targets:
        return
    names = {node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.name
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))
             or (isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store))}
    here = importlib.import_module(module)
    for target in targets:
        parts = target.split(".")
        if not (_resolves(target) or _has(here, parts) or target in names or _has(xetile, parts)):
            yield f"{path.relative_to(ROOT)}: {target}"


def test_roles_in_docstrings() -> None:
    left_out = {"xetile.__main__", *(() if importlib.util.find_spec("torch") else ("xetile.torch",))}
    assert not [missing for module, path in _modules() if module not in left_out
                for missing in _missing_roles(module, path)]


def test_what_is_missing_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ("`xegpu/plain.py`", "`tests/test_docs.py::test_nothing`", "`xetile.placed`", "`roads.py`"):
        page.write_text(text)
        with pytest.raises(AssertionError):
            test_paths_and_names_of_a_page(page)
    page.write_text("the stage `shared-operands`")
    with pytest.raises(AssertionError):
        test_stages_of_a_page(page)
    page.write_text("`xetile.tile_mma`, `xegpu/ir/dtypes.py`, `docs/errors.md`, the pass `blocking`")
    test_paths_and_names_of_a_page(page)
    test_stages_of_a_page(page)
