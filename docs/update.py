"""Runs the code of README.md, of the pages here and of the catalogue of errors; brings up to date what they show.

    python docs/update.py            # rewrite what has changed
    python docs/update.py --check    # say what would change
    python docs/update.py errors.md  # one page
    python docs/update.py XT1250     # one section of the catalogue

A page is read from top to bottom. Its ``python`` blocks run in order, in one namespace a page; each section of the
catalogue (``xetile/errors``) is a page of its own. A block is marked by HTML comments on the lines before it:

    <!-- output -->            what the python block above printed
    <!-- raises -->            a python block that raises an XeError; it runs as a file of its own, kernel.py
    <!-- reads: TARGET -->     MLIR that raises an XeError while it is read, or, if a target is named, emitted for it
    <!-- command -->           a line for the command line, which ends in an error
    <!-- provoked -->          an error of the catalogue that takes more than a few lines to make: provoked.py makes it
    <!-- run -->               a python block that makes files for the commands below
    <!-- file: NAME -->        a block that commands below find as a file of that name
    <!-- message -->           the message of the error above
    <!-- stage: NAME -->       a stage of the page's ``lowered``, shortened; ``opencl`` is the emitted text.
                               Words behind the name pick the lines that hold one of them
    <!-- access -->            descriptors of the page's ``lowerings``, a dict of name to Lowered
    <!-- table: NAME -->       a table that :data:`TABLES` makes; no fence around it
    <!-- needs: ocloc -->      a block for which Intel's offline compiler must be there; ``device`` is the CPU device
    <!-- needs: iga64 -->      the same for the disassembler, with which machine code runs in the simulator
    <!-- without: ocloc -->    a block that runs as if it were not there
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import xetile as xt
from codegen.runtime.devices import find_queue
from codegen.simulator.decoder import find_iga64
from codegen.toolchain.ocloc import find_ocloc
from xegpu.dialect import Vector, XeGPU
from xegpu.ir.dtypes import BY_NAME, NUMBERS, STORED, DType
from xegpu.ir.record import ADDRESSED, Record, record_of
from xetile import errors
from xetile.dialect import XeTile
from xetile.dialect.supervector import SuperVector

sys.path.insert(0, str(Path(__file__).parent))
from failures import FAILING, inside, plain

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = tuple(sorted((ROOT / "xetile" / "errors").glob("*.md")))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *CATALOGUE)
_MARK = re.compile(r"<!-- (\w+)(?:: ([^>]*?))? -->\s*$")


@dataclass
class Block:
    """A fenced block, or a marked table.

    Attributes:
        line: the line of its first line of content, from 1.
        language: what stands behind the fence, ``"table"`` for a table.
        marks: the HTML comments before it, name to argument.
        lines: its content.
    """

    line: int
    language: str
    marks: dict[str, str]
    lines: list[str]

    @property
    def text(self) -> str:
        """The content."""
        return "\n".join(self.lines)


@dataclass
class Refreshed:
    """A page as it should be.

    Attributes:
        text: the whole page.
        left_out: what could not be checked here, and why.
    """

    text: str
    left_out: list[str] = field(default_factory=list)


def blocks_of(lines: list[str]) -> Iterator[Block]:
    """The blocks of a page."""
    marks: dict[str, str] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        if mark := _MARK.match(line):
            marks[mark[1]] = mark[2] or ""
            if "provoked" in marks:
                yield Block(position + 2, "provoked", marks, [])
                marks = {}
        elif line.startswith("```") or ("table" in marks and line.startswith("|")):
            fenced = line.startswith("```")
            start = position + fenced
            end = start
            while end < len(lines) and (lines[end] != "```" if fenced else lines[end].startswith("|")):
                end += 1
            yield Block(start + 1, line[3:] if fenced else "table", marks, lines[start:end])
            marks, position = {}, end
        elif line.strip():
            marks = {}
        position += 1


def refresh(page: Path, codes: Collection[str] = ()) -> Refreshed:
    """Run a page and give it with everything that the program prints as it prints it now.

    Args:
        page: a file.
        codes: of a file of the catalogue, the sections that are run; none for all.
    """
    text = page.read_text(encoding="utf-8")
    if page not in CATALOGUE:
        return refresh_text(text, page)
    area = errors.parse(page.stem, text)
    new = Refreshed(area.head)
    for section in area.explanations:
        done = refresh_section(section, page) if not codes or section.code in codes else Refreshed(section.text)
        new.text += done.text
        new.left_out += done.left_out
    return new


def refresh_section(section: errors.Explanation, page: Path) -> Refreshed:
    """Run a section of the catalogue, which is in the file ``page``."""
    return refresh_text(section.text, page, section.line, section.code)


def refresh_text(text: str, page: Path, line: int = 1, code: str = "") -> Refreshed:
    """Run a text, which begins at a line of the file ``page``; ``code`` is that of the error that it explains."""
    lines = text.splitlines()
    new: list[str] = []
    copied = 0
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(page, Path(folder), line, code)
        for block in blocks_of(lines):
            start = block.line - 1
            new += lines[copied:start]
            new += run.content(block)
            copied = start + len(block.lines)
    return Refreshed("\n".join(new + lines[copied:]) + "\n", run.left_out)


class _Run:
    """One page, being run.

    Args:
        page: its file.
        folder: for the files that its blocks write.
        line: the line of the file that it begins at.
        code: of a section of the catalogue, the code of the error that it explains.
    """

    def __init__(self, page: Path, folder: Path, line: int, code: str) -> None:
        self.page, self.folder, self.first_line, self.code = page, folder, line, code
        self.left_out: list[str] = []
        self.namespace: dict[str, Any] = {"__name__": code or page.stem}
        self.shown: list[str] | None = None

    def content(self, block: Block) -> list[str]:
        """Content of a block as it should be."""
        for tool in block.marks.get("needs", "").split():
            if reason := missing(tool):
                self.left_out.append(f"{self._position(block)}: {reason}")
                self.shown = None
                return block.lines
        if "file" in block.marks:
            (self.folder / block.marks["file"]).write_text(block.text + "\n", encoding="utf-8")
            return block.lines
        if "run" in block.marks:
            with inside(self.folder):
                self._printed(block)
            return block.lines
        if kind := next((kind for kind in FAILING if kind in block.marks), None):
            with without_ocloc() if "without" in block.marks else contextlib.nullcontext():
                self.shown = self._failed(kind, block).splitlines()
            return block.lines
        if block.language == "python":
            with without_ocloc() if "without" in block.marks else contextlib.nullcontext():
                self.shown = self._printed(block).splitlines()
            return block.lines
        if "output" in block.marks or "message" in block.marks:
            return block.lines if self.shown is None else self.shown
        if "stage" in block.marks:
            return stage(self.namespace["lowered"], block.marks["stage"]).splitlines()
        if "access" in block.marks:
            return access(self.namespace["lowerings"]).splitlines()
        if "table" in block.marks:
            return TABLES[block.marks["table"]]()
        return block.lines

    def _printed(self, block: Block) -> str:
        code = compile("\n" * (self._line(block) - 1) + block.text, str(self.page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.namespace)
        return out.getvalue().rstrip("\n")

    def _failed(self, kind: str, block: Block) -> str:
        argument = self.code if kind == "provoked" else block.marks[kind]
        try:
            message = plain(FAILING[kind](block.text, argument, self.folder), self.folder)
        except AssertionError as wrong:
            raise AssertionError(f"{self._position(block)}: {wrong}") from None
        if self.code and f"[{self.code}]" not in message.partition("\n")[0]:
            raise AssertionError(f"{self._position(block)}: this is not {self.code}: {message}")
        return message

    def _line(self, block: Block) -> int:
        """The line of the block's first line of content in its file."""
        return self.first_line + block.line - 1

    def _position(self, block: Block) -> str:
        return f"{self.page.name}:{self._line(block)}"


@contextlib.contextmanager
def without_ocloc() -> Iterator[None]:
    """Neither PATH nor XETILE_OCLOC leads to ocloc."""
    before = dict(os.environ)
    os.environ["PATH"] = ""
    os.environ.pop("XETILE_OCLOC", None)
    try:
        yield
    finally:
        os.environ.update(before)


@cache
def missing(tool: str) -> str:
    """Reason for which ``ocloc``, ``iga64``, ``device`` or a package is not there, empty if it is."""
    if tool == "dpnp":
        return "" if find_spec(tool) else f"{tool} is not installed"
    try:
        {"ocloc": find_ocloc, "iga64": find_iga64, "device": lambda: find_queue("opencl:cpu")}[tool]()
    except xt.XeError as error:
        return error.message
    return ""


_HIDDEN = re.compile(r"arith\.constant|memref\.extract_strided_metadata|gpu\.block_id|gpu\.subgroup_id|arith\.muli|"
                     r"arith\.addi|arith\.floordivsi|arith\.andi|func\.return")
_ATTRIBUTE = re.compile(r"#(?:xetile|xegpu)\.\w+<(?:[^<>]|#\w+\.\w+<[^<>]*>)*>")


def stage(lowered: Any, what: str) -> str:
    """A stage of a kernel, shortened: without constants, sizes and index arithmetic, attributes under short names."""
    name, *words = what.split()
    if name == "opencl":
        return lowered.opencl.rstrip("\n")
    body = [line for line in lowered.stages[name].splitlines()[2:-2] if not _HIDDEN.search(line)]
    text = "\n".join(line[4:] for line in body if not words or any(word in line for word in words))
    text = re.sub(r", \[%\w+_size0, %\w+_size1\], \[%\w+_stride0, %\w+_stride1\] : memref<[^!]*> ->", " ->", text)
    text = text.replace("!xetile.", "!").replace("!xegpu.", "!")
    short: dict[str, str] = {}
    for found in Counter(_ATTRIBUTE.findall(text)):
        short[found] = f"#{len(short)}"
    text = _ATTRIBUTE.sub(lambda match: short[match[0]], text)
    head = "".join(f"{alias} = {long}\n" for long, alias in short.items())
    return (head + "\n" if head else "") + "\n".join(_cut(line) for line in text.splitlines())


def _cut(line: str) -> str:
    """A line without the types of operations that say nothing new, and never too long to read."""
    if re.search(r"scf\.(for|yield)|update_|vector\.extract", line):
        line = re.sub(r" (?:->|:) [(!v#].*?( \{)?$", r"\1", line)
    line = re.sub(r", strides = \[[^]]*\]", "", line).replace(" : i64", "")
    return re.sub(r" : vector\S*, vector\S*, vector\S* -> ", " -> ", line)


def access(lowerings: dict[str, Any]) -> str:
    """For each lowering, how its first array is reached: its descriptor's type."""
    rows = []
    for name, lowered in lowerings.items():
        line = next(line for line in lowered.xegpu.splitlines() if "create_nd_tdesc %A" in line)
        rows.append(f"{name}\n    {line.partition('-> ')[2]}")
    return "\n".join(rows)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def targets() -> list[str]:
    """The target tables, as a table."""
    rows = []
    for target in xt.TARGETS.values():
        depths = {form.a.name: form.k for form in target.mma_shapes if form.engine == "dpas" and form.a is form.b}
        small, large = target.registers
        rows.append([f"`{target.name}`", target.description, str(target.subgroup_size),
                     ", ".join(depths) or "none: plain multiply-adds",
                     "yes" if target.block_io else "no",
                     f"{small} or {large} x {target.register_bytes} bytes" if large else "not chosen",
                     " / ".join(map(str, target.max_subgroups if large else target.max_subgroups[:1]))])
    return _table(["target", "devices", "subgroup size", "DPAS takes", "2D block IO", "registers a thread",
                   "most subgroups a work-group (small / large register mode)"], rows)


# A's and B's element type, accumulator.
PRODUCTS = (("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("f16", "f16", "f16"),
            ("tf32", "tf32", "f32"), ("f32", "f32", "f32"), ("i8", "i8", "i32"), ("u8", "u8", "i32"),
            ("i8", "u8", "i32"), ("u8", "i8", "i32"), ("i4", "i4", "i32"), ("f64", "f64", "f64"))
PLACES = (("NumPy, `numpy`", "numpy", "pvc"), ("NumPy, `numpy:xegpu`", "numpy:xegpu", "pvc"),
          ("CPU device, own code", "opencl:cpu", "cpu"), ("CPU device, text for `pvc`", "opencl:cpu", "pvc"),
          ("CPU device, text for `dg2`", "opencl:cpu", "dg2"), ("machine code for `pvc`", "", "pvc"),
          ("machine code for `dg2`", "", "dg2"), ("the same, run for `pvc`", "machine:pvc", "pvc"),
          ("the same, run for `dg2`", "machine:dg2", "dg2"))


@xt.kernel
def product(A, B, C, *, K, accumulator):
    a, b = xt.init_tile(A, (0, 0), (8, K)), xt.init_tile(B, (0, 0), (K, 16))
    acc = xt.zeros((8, 16), accumulator)
    for _ in xt.range(0, A.shape[1], K):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (8, 16)))


def runs() -> list[str]:
    """Table of what runs where, found by running it on integers small enough that the result must be exact."""
    rows = []
    for a, b, c in PRODUCTS:
        cells = [_outcome((a, b, c), where, target) for _, where, target in PLACES]
        rows.append([f"{a} x {b} into {c}", *cells])
    return _table(["product", *(name for name, _, _ in PLACES)], rows)


def _outcome(names: tuple[str, str, str], where: str, target: str) -> str:
    types = [BY_NAME[name] for name in names]
    depth = 64 if types[0].bits <= 8 else 16
    constants = {"K": depth, "accumulator": types[2]}
    try:
        specs = [xt.Spec((None, None), dtype) for dtype in types]
        if types[1].bits < 8:
            specs[1] = xt.Spec((None, None), types[1], (1, None))
        lowered = product.lower(*specs, target=target, **constants)
        _ = lowered.final  # what a target refuses counts as refused, wherever it would run
        if where:
            return _run_one(types, where, target, constants)
        loop = lowered.report().mix.whole.categories
        return "`dpas`" if loop.get("dpas") else "no `dpas`"
    except xt.XeError:
        return "no"


def _run_one(types: list[Any], where: str, target: str, constants: dict[str, Any]) -> str:
    generator = np.random.default_rng(1)
    shapes = ((7, 3 * constants["K"] - 5), (3 * constants["K"] - 5, 13))
    a, b = (generator.integers(0 if t.kind == "u" else -2, 3, s).astype(t.numpy)
            for t, s in zip(types, shapes, strict=False))
    c = np.zeros((7, 13), types[2].numpy)
    packed = types[0].bits < 8
    x, y = (xt.pack(a, types[0]), xt.pack(b, types[1], -2)) if packed else (xt.view(a, types[0]), xt.view(b, types[1]))
    product.on(where, target=target)[1](x, y, c, **constants)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return "yes" if np.array_equal(c.astype(np.float64), expected) else "WRONG"


def areas() -> list[str]:
    """The files of the catalogue, with links."""
    return _table(["codes", "errors of"],
                  [[f"XT{area.number.ljust(4, '.')}", f"[{area.title}](../xetile/errors/{area.name}.md)"]
                   for area in errors.areas()])


def operations() -> list[str]:
    """Records of block operations: those that have equal ones share a row."""
    rows: dict[Record, list[str]] = {}
    for dialect in (Vector, XeGPU, XeTile, SuperVector):
        for operation in dialect.operations:
            if (record := record_of(operation)) is not None:
                rows.setdefault(record, []).append(operation.name)
    return _table(["operations", "element types", "defined for", "rounding"], [
        [" ".join(f"`{name}`" for name in names), _named(record.elements), DEFINED[record.defined],
         ROUNDED[record.rounding]] for record, names in sorted(rows.items(), key=lambda row: -len(row[1]))])


DEFINED = {"": "everything", "positions": "enabled positions inside the array",
           "arrival": "arrival of all subgroups that take part"}
ROUNDED = {"": "", "once": "once", "sum": "once, behind a sum in any order"}


def _named(elements: Collection[DType]) -> str:
    """Element types, by the sets that have a name."""
    for name, known in (("all", STORED), ("all but i1", ADDRESSED), ("numbers", NUMBERS)):
        if set(known) <= set(elements):
            return ", ".join((name, *(str(dtype) for dtype in elements if dtype not in known)))
    return " ".join(map(str, elements))


TABLES: dict[str, Callable[[], list[str]]] = {"targets": targets, "runs": runs, "areas": areas,
                                              "operations": operations}


def difference(old: str, new: str, name: str) -> str:
    """Difference between a page and what it should be, empty if there is none."""
    if old != new and old.splitlines() == new.splitlines():
        return f"{name}: its last line has no end, or lines end otherwise"
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), name, "now", lineterm=""))


def main() -> None:
    """Rewrite the pages, or with ``--check`` print what would change."""
    parser = argparse.ArgumentParser("python docs/update.py", description="Run the documentation's code; bring up to "
                                     "date what it shows.")
    parser.add_argument("names", nargs="*", metavar="PAGE|CODE",
                        help="pages and sections of the catalogue, by default all")
    parser.add_argument("--check", action="store_true", help="say what would change")
    options = parser.parse_args()
    stale, names = False, set(options.names)
    codes = names & set(errors.explanations())
    files = {area.name + ".md" for area in errors.areas() if codes & {section.code for section in area.explanations}}
    if unknown := names - codes - {page.name for page in PAGES}:
        raise SystemExit(f"neither a page nor a code: {', '.join(sorted(unknown))}")
    for page in (page for page in PAGES if not names or page.name in names | files):
        old, new = page.read_text(encoding="utf-8"), refresh(page, () if page.name in names else codes)
        for reason in new.left_out:
            print(f"left out: {reason}")
        if old == new.text:
            continue
        stale = True
        if options.check:
            print(difference(old, new.text, page.name))
        else:
            page.write_text(new.text, encoding="utf-8")
            print(f"updated {page.name}")
    if stale and options.check:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
