"""Survey of LLVM's own XeGPU tests: which of their functions read, and which lower.

    python -m tests.xetile.text.llvm.survey PATH/mlir/test [--files GLOB] [--failures] [--run]

PATH is a checkout of LLVM. Functions that LLVM itself refuses (``expected-error``) are counted apart; so are those in
which mlir-opt refuses what was cut out of its file. With ``--run`` those that lower run on random arrays, by NumPy, on
the device and from what they print in LLVM's form, each in a process of its own, and are compared.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, i32

import xetile as xt
from tests.xetile.text.llvm.agreement import comparisons
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import static_form
from xegpu.support.errors import XeError
from xetile.jit.parsed import ParsedKernel

_FUNCTION = re.compile(r"^ *(?:gpu|func)\.func\s+(?:private\s+|public\s+)?@([\w$.-]+|\"[^\"]+\")", re.MULTILINE)
_SECONDS = 20


@dataclass(frozen=True)
class Case:
    """One function of LLVM's tests.

    Attributes:
        file: its file, below the folder of tests.
        name: the function's.
        text: a module with this function alone, and the file's aliases.
        refused: whether LLVM refuses it.
    """

    file: str
    name: str
    text: str
    refused: bool


def cases(root: Path, pattern: str) -> Iterator[Case]:
    """The functions of LLVM's tests that have an operation of XeGPU."""
    for path in sorted(root.glob(pattern)):
        for part in re.split(r"^// -{4,}.*$", path.read_text(), flags=re.MULTILINE):
            if path.suffix == ".mlir":
                yield from _functions(str(path.relative_to(root)), part)


def _functions(file: str, part: str) -> Iterator[Case]:
    aliases = "\n".join(_statements(part))
    for match in _FUNCTION.finditer(part):
        body = _body(part, match.start())
        if body is None or "xegpu." not in body:
            continue
        code = "\n".join(re.sub(r"\s*//.*$", "", line) for line in body.splitlines())
        text = f"{aliases}\ngpu.module @m {{\n{_without_test_operations(code)}\n}}\n"
        yield Case(file, match[1], text, "expected-error" in body)


_SINK = re.compile(r'^ *"[\w.]+"\(.*\) -> \(\)$', re.MULTILINE)
_SOURCE = re.compile(r'^ *(%\w+) *= *"[\w.]+"\(\)\s*(?:\{[^{}]*\})?\s*: *\(\) *-> *\(?(.*?)\)?$', re.MULTILINE)


def _without_test_operations(code: str) -> str:
    """A function without the operations of no dialect: those without results go, the others are arguments."""
    code = _SINK.sub("", code)
    sources = _SOURCE.findall(code)
    if not sources:
        return code
    first, last = code.index("("), code.index(")", code.index("("))
    arguments = [code[first + 1:last].strip(), *(f"{name}: {type_}" for name, type_ in sources)]
    return _SOURCE.sub("", f"{code[:first + 1]}{', '.join(filter(None, arguments))}{code[last:]}")


def _statements(part: str) -> Iterator[str]:
    """Attribute and type aliases, each over as many lines as its brackets take."""
    lines = iter(part.splitlines())
    for line in lines:
        if re.match(r"[#!][\w$.-]+\s*=", line):
            text = line
            while _depth(text) > 0:
                text += "\n" + next(lines, ">")
            yield text


def _depth(text: str) -> int:
    text = text.replace("->", "")
    return sum(text.count(bracket) for bracket in "<([{") - sum(text.count(bracket) for bracket in ">)]}")


def _body(part: str, start: int) -> str | None:
    """A function's text, to the brace that ends it; None of a declaration."""
    depth, seen = 0, False
    code = re.sub(r"//.*", lambda comment: " " * len(comment[0]), part)
    opened = re.compile(r"[{}]")
    for match in opened.finditer(code, start):
        depth += 1 if match[0] == "{" else -1
        seen = seen or _opens_body(code, match.start(), depth)
        if seen and depth == 0:
            return part[start:match.end()]
    return None


def _opens_body(code: str, at: int, depth: int) -> bool:
    """Whether a brace opens a function's body, and no attributes: a line ends behind it."""
    return depth == 1 and code[at] == "{" and re.match(r"\{[ \t]*$|\{[ \t]*\n", code[at:]) is not None


def verdict(case: Case, mlir_opt: str) -> tuple[str, str]:
    """How far a case goes, and why no further."""
    accepted = subprocess.run([mlir_opt], input=case.text, text=True, capture_output=True, check=False)
    if accepted.returncode:
        return ("refused by LLVM" if case.refused else "not cut out well"), accepted.stderr.splitlines()[0]
    stage = "not read"
    try:
        module = xt.parse(case.text)
        stage = "not printed"
        for kernel in module.values():
            str(kernel)
        stage = "not lowered"
        for kernel in module.values():
            if (arguments := _arguments(kernel)) is not None:
                kernel.lower(*arguments, target="pvc")
    except XeError as error:
        return stage, f"[{error.code}] {error.message.splitlines()[0]}"
    except _TimeoutError:
        return stage, "over time"
    except Exception as error:
        return stage, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return "reads and lowers", ""


def _arguments(kernel: ParsedKernel) -> list[Any] | None:
    """Arguments of the types that a kernel takes; None if it takes vectors, which no launch can pass."""
    arguments: list[Any] = []
    for type_ in kernel.argument_types:
        if isinstance(type_, MemRefType):
            shape, strides = static_form(type_) or (tuple(None if n < 0 else n for n in type_.get_shape()), None)
            arguments.append(xt.Spec(shape, of_mlir(type_.element_type), strides))
        elif isinstance(type_, VectorType):
            return None
        else:
            arguments.append(1 if isinstance(type_, IndexType) or type_ == i32 else of_mlir(type_).numpy.type(1))
    return arguments


def compared(case: Case, mlir_opt: str) -> Counter[tuple[str, str]]:
    """Outcomes of the comparisons of a case's executions, made in a process of its own."""
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(_compare, case, mlir_opt).result()
        except BrokenExecutor:
            return Counter({("process", "ended"): 1})


def _compare(case: Case, mlir_opt: str) -> Counter[tuple[str, str]]:
    signal.alarm(3 * _SECONDS)
    try:
        kernels = xt.parse(case.text).items()
        return Counter([each for name, kernel in kernels for each in comparisons(kernel, name, mlir_opt)])
    except _TimeoutError:
        return Counter({("process", "over time"): 1})
    finally:
        signal.alarm(0)


class _TimeoutError(Exception):
    pass


def _alarm(number: int, frame: FrameType | None) -> None:
    raise _TimeoutError


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser("python -m tests.xetile.text.llvm.survey",
                                     description="Which of LLVM's XeGPU tests read.")
    parser.add_argument("path", type=Path, help="LLVM's folder mlir/test")
    parser.add_argument("--files", default="**/*.mlir", help="pattern of files")
    parser.add_argument("--failures", action="store_true", help="print each function that does not read")
    parser.add_argument("--run", action="store_true", help="run those that lower, and compare")
    parser.add_argument("--show", help="print the text of this function")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    stages: Counter[str] = Counter()
    outcomes: Counter[tuple[str, str]] = Counter()
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case in cases(options.path, options.files):
        if options.show and case.name != options.show:
            continue
        signal.alarm(_SECONDS)
        try:
            stage, reason = verdict(case, os.environ.get("XETILE_MLIR_OPT", "mlir-opt"))
        finally:
            signal.alarm(0)
        stages[stage] += 1
        if options.run and stage == "reads and lowers":
            found = compared(case, os.environ.get("XETILE_MLIR_OPT", "mlir-opt"))
            outcomes += found
            for what, outcome in found:
                if outcome != "same":
                    print(f"{case.file}:{case.name}: {what}: {outcome}", flush=True)
        reasons[stage, re.sub(r"[%@]\w+|'[^']*'|<[^>]*>+|\d+", "_", reason)].append(f"{case.file}:{case.name}")
        if options.show:
            print(case.text, stage, reason, sep="\n")
        elif options.failures and stage not in ("reads and lowers", "refused by LLVM"):
            print(f"{case.file}:{case.name}: {stage}: {reason}", flush=True)
    for (stage, reason), names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        if reason:
            print(f"{len(names):4} {stage}: {reason[:150]}   ({names[0]})")
    for stage, count in stages.most_common():
        print(f"{count:4} {stage}")
    for (what, outcome), count in sorted(outcomes.items()):
        print(f"{count:4} {what}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
