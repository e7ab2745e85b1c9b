"""The house: three floors, imports only run down, no circles, docstrings, and what importing the package costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("xegpu", "codegen", "xetile")
FILES = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
         for floor in FLOORS for file in sorted((ROOT / floor).rglob("*.py"))}
TEXTS = sorted(file for folder in (*FLOORS, "examples", "docs", "tests", "benchmarks")
               for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".cl", ".hpp", ".toml", ".txt"))
TEXTS += sorted((*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / ".ci").glob("*")))


def _imported(tree: ast.AST, module: str) -> Iterator[str]:
    """The modules of ours that a file imports, those that it imports inside functions or for annotations too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name for alias in node.names if (name := _known(alias.name)))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                if name := _known(f"{node.module}.{alias.name}") or _known(node.module or ""):
                    yield name


def _known(name: str) -> str:
    """``name`` if it is a file of ours, else empty."""
    return name if name in FILES else ""


IMPORTS = {module: set(_imported(ast.parse(file.read_text()), module)) - {module} for module, file in FILES.items()}


def _floor(module: str) -> int:
    return FLOORS.index(module.partition(".")[0])


def test_the_files_were_found() -> None:
    assert len(FILES) > 30
    assert "xegpu.support.errors" in IMPORTS["xetile.jit.kernel"]
    assert "codegen.opencl" in IMPORTS["xetile.compiler.compiled"]


@pytest.mark.parametrize("module", FILES)
def test_imports_only_run_down(module: str) -> None:
    above = {other for other in IMPORTS[module] if _floor(other) > _floor(module)}
    assert not above, f"{module} imports {above}"


def test_nothing_is_imported_by_name() -> None:
    """A circle would not be seen then. Only the public names that ``xetile`` imports on first use are looked up so."""
    by_name = re.compile(r"\bimport_module\(|\b__import__\(\s*[\"'](?:xegpu|codegen|xetile)")
    found = [module for module, file in FILES.items() if by_name.search(file.read_text())]
    assert found == ["xetile"]


def test_no_two_files_import_each_other() -> None:
    pairs = {tuple(sorted((a, b))) for a, others in IMPORTS.items() for b in others if a in IMPORTS[b]}
    assert not pairs


def test_no_imports_go_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module):], module))
        if module not in done:
            for other in IMPORTS[module]:
                visit(other, (*path, module))
            done.add(module)

    for module in FILES:
        visit(module, ())


def _public(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Module-level functions and classes, and the methods of the classes, that have no underscore in front."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def _overrides(tree: ast.Module, name: str) -> bool:
    """Whether a method has its docstring elsewhere: in a base class, or in a protocol of the same file."""
    owner, _, method = name.partition(".")
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner)
    described = {other.partition(".")[2] for other, node in _public(tree) if ast.get_docstring(node)}  # type: ignore
    return bool(method) and (method in described or any(node.bases for node in classes))


@pytest.mark.parametrize("module", FILES)
def test_every_public_function_and_class_has_a_docstring(module: str) -> None:
    tree = ast.parse(FILES[module].read_text())
    bare = [name for name, node in _public(tree) if not ast.get_docstring(node) and not _overrides(tree, name)]  # type: ignore
    assert not bare


@pytest.mark.parametrize("module", [name for name, file in FILES.items() if file.read_text().strip()])
def test_every_file_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse(FILES[module].read_text()))


@pytest.mark.parametrize("blocked", ["", "dpctl", "dpnp"])
def test_importing_xetile_needs_no_device_package(blocked: str) -> None:
    program = f"import sys; sys.modules.update({{name: None for name in {blocked.split()!r}}})\n" \
              "import xetile\n" \
              "loaded = {name.partition('.')[0] for name, module in sys.modules.items() if module is not None}\n" \
              "assert not loaded & {'dpctl', 'dpnp', 'torch', 'hypothesis', 'pytest'}, loaded\n"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_lowering_needs_no_device_package() -> None:
    program = "import sys; sys.modules.update(dpctl=None, dpnp=None)\n" \
              "import numpy as np, xetile as xt\n" \
              "@xt.kernel\n" \
              "def copy(X, Y):\n" \
              "    xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (8, 16))), xt.init_tile(Y, (0, 0), (8, 16)))\n" \
              "x = np.arange(128.0).reshape(8, 16)\n" \
              "y = np.zeros_like(x)\n" \
              "copy[1](x, y)\n" \
              "assert np.array_equal(x, y)\n" \
              "late = 'xetile.compiler.pipeline codegen.opencl xetile.runtime.device_executor numpy.ma'\n" \
              "assert not {*late.split()} & {*sys.modules}\n" \
              "assert 'kernel void copy' in copy.lower(x, y).opencl\n"
    file = ROOT / ".pytest_cache" / "lowering.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(program)
    subprocess.run([sys.executable, str(file)], cwd=ROOT, check=True)


_FORBIDDEN = {
    "a path in somebody's home": r"(?<![\w.])/(?:home|Users)/\w+|(?<![\w.])/root(?:/|\b)",
    "a package index": r"(?:pypi|pythonhosted|anaconda|artifactory|nexus)\.\w+|--(?:extra-)?index-url|proxy\.golang",
    "an address in a private network": r"\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}\b",
}


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_file_names_what_belongs_to_one_machine(what: str) -> None:
    found = [f"{file.relative_to(ROOT)}: {match[0]}" for file in TEXTS if file != Path(__file__).resolve()
             for match in re.finditer(_FORBIDDEN[what], file.read_text())]
    assert not found


@pytest.mark.parametrize("word", ["utils", "misc", "common", "helpers"])
def test_no_file_is_called_so(word: str) -> None:
    assert not [module for module in FILES if module.endswith(f".{word}")]
