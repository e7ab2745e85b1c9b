"""The house: floors and folders, imports that only run down, families, docstrings, and what importing costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("xegpu", "codegen", "xetile")
LAYERS = (
    "xegpu.support", "xegpu.ir", "xegpu.target", "xegpu.layout", "xegpu.mlir", "xegpu.dialect", "xegpu.analysis",
    "xegpu.rewrite", "xegpu.interpreter", "xegpu.passes", "xegpu.interop",
    "codegen.opencl", "codegen.sycl", "codegen.toolchain", "codegen.simulator", "codegen.runtime", "codegen.perf",
    "xetile.errors", "xetile.dialect", "xetile.frontend", "xetile.interpreter", "xetile.passes", "xetile.text",
    "xetile.compiler", "xetile.lang", "xetile.runtime", "xetile.jit", "xetile.library", "xetile.distributed",
    "xetile.tools",
)
"""Folders from the ground up: each imports only those before it."""
MOST_ENTRIES = 15
"""Files and folders beside each other; what is more wants another folder."""
MOST_LINES = 400
"""Of a file; most have 150."""
CATALOGUE = "xetile.errors"


class Tree:
    """The modules below a folder, and what each imports: inside functions, for annotations, and by name, too."""

    def __init__(self, root: Path) -> None:
        self.files = {".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
                      for floor in FLOORS for file in sorted((root / floor).rglob("*.py"))}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax trees."""
        return {module: ast.parse(file.read_text()) for module, file in self.files.items()}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """For each module the modules that it imports."""
        return {module: set(self._imported(tree)) - {module} for module, tree in self.trees.items()}

    def _imported(self, tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"a relative import of {node.module}"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in self.files else str(node.module) for name in names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
                names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            yield from (name for name in names if name in self.files)

    def folder(self, module: str) -> str:
        """The folder of a module, dotted."""
        return module if self.files[module].name == "__init__.py" else module.rpartition(".")[0]

    def upward(self) -> list[str]:
        """Imports against the order of :data:`LAYERS`."""
        rank = {layer: position for position, layer in enumerate(LAYERS)}
        found = []
        for module, others in self.imports.items():
            for other in others:
                ours, theirs = (".".join(self.folder(each).split(".")[:2]) for each in (module, other))
                if ours in rank and theirs in rank and rank[theirs] > rank[ours]:
                    found.append(f"{module} imports {other}")
        return sorted(found)

    def unordered(self) -> list[str]:
        """Folders that have no position in :data:`LAYERS`."""
        return sorted({".".join(self.folder(module).split(".")[:2]) for module in self.files} - {*LAYERS, *FLOORS})

    def file_circles(self) -> list[str]:
        """Files that import each other, directly or through others."""
        return _circles(self.imports)

    def folder_circles(self) -> list[str]:
        """Folders, neither of which is inside the other, that import each other, directly or through others."""
        folders: dict[str, set[str]] = defaultdict(set)
        for module, others in self.imports.items():
            ours = self.folder(module)
            folders[ours] |= {theirs for theirs in map(self.folder, others)
                              if not f"{theirs}.".startswith(f"{ours}.") and not f"{ours}.".startswith(f"{theirs}.")}
        return _circles(folders)

    def by_name(self) -> list[str]:
        """Modules that import some of ours by name: circles hide there."""
        call = re.compile(r"\bimport_module\(|\b__import__\(\s*[\"'](?:xegpu|codegen|xetile)")
        return [module for module, file in self.files.items() if call.search(file.read_text())]

    def crowded(self) -> list[str]:
        """Folders with too many entries, the catalogue of errors aside."""
        entries: dict[str, set[str]] = defaultdict(set)
        for module, file in self.files.items():
            if file.name == "__init__.py":
                entries[module.rpartition(".")[0]].add(module)
            else:
                entries[self.folder(module)].add(module)
        return [f"{folder}: {len(found)}" for folder, found in entries.items()
                if folder not in ("", CATALOGUE) and len(found) > MOST_ENTRIES]

    def upper_operations(self) -> list[str]:
        """Strings in the lower floors that name an operation of the top one."""
        return [f"{module}: {node.value}" for module, tree in self.trees.items() if not module.startswith("xetile")
                for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
                and re.fullmatch(r"(?:xetile|supervector)\.[a-z_]+", node.value)]

    def shadowed(self) -> list[str]:
        """Packages that bind the name of one of their modules to something else: the import of it gives either."""
        found = []
        for module, tree in self.trees.items():
            inner = {other.removeprefix(f"{module}.") for other in self.files if other.rpartition(".")[0] == module}
            for node in tree.body:
                names = {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else \
                    {alias.asname or alias.name for alias in node.names} \
                    if isinstance(node, ast.ImportFrom) and node.module != module else set()
                found += [f"{module}.{name}" for name in sorted(names & inner)]
        return found


def _circles(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One path for each way back to a node, by depth-first search."""
    found, done = [], set()

    def visit(node: str, path: tuple[str, ...]) -> None:
        if node in path:
            found.append(" -> ".join((*path[path.index(node):], node)))
        elif node not in done:
            for other in sorted(graph.get(node, ())):
                visit(other, (*path, node))
            done.add(node)

    for node in graph:
        visit(node, ())
    return found


TREE = Tree(ROOT)
FILES = TREE.files
TEXTS = sorted(file for folder in (*FLOORS, "examples", "docs", "tests", "benchmarks")
               for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".cl", ".hpp", ".toml", ".txt"))
TEXTS += sorted((*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / ".ci").glob("*")))


def test_the_files_were_found() -> None:
    assert len(FILES) > 30
    assert "xegpu.support.errors" in TREE.imports["xetile.jit.kernel"]
    assert "codegen.opencl" in TREE.imports["xetile.compiler.compiled"]


def test_every_folder_has_its_layer() -> None:
    assert TREE.unordered() == []


def test_imports_only_run_down() -> None:
    assert TREE.upward() == []


def test_no_files_import_in_a_circle() -> None:
    assert TREE.file_circles() == []


def test_no_folders_import_in_a_circle() -> None:
    assert TREE.folder_circles() == []


def test_nothing_is_imported_by_name() -> None:
    """Only the public names that ``xetile`` imports on first use are looked up so."""
    assert TREE.by_name() == ["xetile"]


def test_no_folder_is_crowded() -> None:
    assert TREE.crowded() == []


def test_the_lower_floors_name_no_operation_of_the_top_one() -> None:
    assert TREE.upper_operations() == []


def test_no_package_hides_a_module_of_its_own() -> None:
    """The library's functions have their modules' names, and nobody outside imports those modules."""
    assert [name for name in TREE.shadowed() if not name.startswith("xetile.library.")] == []


_BROKEN = {
    "unordered": {"xegpu/odds/ends.py": ""},
    "upward": {"xegpu/ir/a.py": "def f():\n    from xegpu.passes import b", "xegpu/passes/b.py": ""},
    "file_circles": {"codegen/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import codegen.b",
                     "codegen/b.py": "from importlib import import_module\nimport_module('codegen.a')"},
    "folder_circles": {"codegen/a/one.py": "import codegen.b.one", "codegen/b/one.py": "",
                       "codegen/b/two.py": "from codegen.a import two", "codegen/a/two.py": ""},
    "by_name": {"xegpu/a.py": "from importlib import import_module as load\nload(name)\nimport_module(name)"},
    "crowded": {f"xetile/lang/f{number}.py": "" for number in range(MOST_ENTRIES + 1)},
    "upper_operations": {"xegpu/a.py": "STORES = ('xegpu.store_nd', 'xetile.store_tile')"},
    "shadowed": {"xegpu/a/__init__.py": "from xegpu.b import vector", "xegpu/a/vector.py": "",
                 "xegpu/b.py": "vector = 1"},
}


@pytest.mark.parametrize("check", _BROKEN)
def test_each_check_fails_where_its_rule_is_broken(check: str, tmp_path: Path) -> None:
    for name, text in _BROKEN[check].items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert getattr(Tree(tmp_path), check)()


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


def test_every_public_function_and_class_has_a_docstring() -> None:
    assert not [f"{module}: {name}" for module, tree in TREE.trees.items() for name, node in _public(tree)
                if not ast.get_docstring(node) and not _overrides(tree, name)]  # type: ignore


def test_every_file_says_what_it_is() -> None:
    assert not [module for module, tree in TREE.trees.items() if tree.body and not ast.get_docstring(tree)]


def test_no_file_is_long() -> None:
    assert not [module for module, file in FILES.items() if len(file.read_text().splitlines()) > MOST_LINES]


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
    "a conflict of a merge": r"(?m)^(?:<{7}|>{7}) ",
}


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_file_has_what_belongs_to_one_machine(what: str) -> None:
    found = [f"{file.relative_to(ROOT)}: {match[0]}" for file in TEXTS if file != Path(__file__).resolve()
             for match in re.finditer(_FORBIDDEN[what], file.read_text())]
    assert not found


@pytest.mark.parametrize("word", ["utils", "misc", "common", "helpers"])
def test_no_file_is_called_so(word: str) -> None:
    assert not [module for module in FILES if module.endswith(f".{word}")]
