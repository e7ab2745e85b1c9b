"""Mutated MLIR texts: each is read and lowered, or refused with an XeError, in bounded time and memory.

Texts of the repository are cut into tokens; a seeded mutation deletes, doubles, swaps or replaces some, writes huge,
negative and zero numbers, nests brackets, or truncates the text. ``python -m tests.fuzz --text --seconds N``.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, MemRefType

import xetile as xt
from tests.text_examples import read_document
from xegpu.ir.dtypes import index, of_mlir
from xegpu.ir.memref import static_form

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 20
"""Limit of one text; a fresh process on a busy machine takes a second for most."""
MEMORY = 4 << 30
TARGETS = ("pvc", "dg2", "cpu")
_TOKEN = re.compile(r"\s+|[%#!@^]?[\w.$]+|->|\S")
_TARGET = re.compile(r'target = "(pvc|dg2|cpu)"')
_NUMBERS = ("0", "-1", "1", "3", "7", "255", "65536", "2147483647", "2147483648", "-2147483648", "4294967296",
            "9223372036854775807", "9223372036854775808", "100000000000000000000", "1e400", "0x7FC00000", "1.5")
_WORDS = ("f32", "i1", "index", "?", "vector<8x16xf32>", "vector<0x16xf32>", "memref<?x?xf32>", "none", "[]", "{}",
          "<>", "()", "tf32", "true", "scf.for", "func.func", "#x", "!y", "%c0", "dense<0>", '"', "i99999",
          "vector<1xi8>")


class Overrun(BaseException):
    """A text took longer than :data:`SECONDS`; no handler of the package catches it."""


@cache
def texts() -> tuple[str, ...]:
    """Texts of the documents, of the tests, of the catalogue of errors, and stages of lowered kernels."""
    found = [example.text() for path in sorted(ROOT.glob("tests/xetile/text/documents/*.mlir"))
             for example in read_document(path).values()]
    for folder in ("kernels", "features"):
        found += [path.read_text(encoding="utf-8")
                  for path in sorted(ROOT.glob(f"tests/xetile/text/**/{folder}/*.mlir"))]
    for path in sorted((*ROOT.glob("xetile/errors/*.md"), *ROOT.glob("docs/*.md"))):
        found += re.findall(r"```mlir[^\n]*\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    found = [text for text in found if "func.func" in text or "gpu.func" in text]
    matrix = xt.Spec((None, None), "bf16")
    whole, stages = xt.Spec((None, None), "f32"), []
    for target in TARGETS:
        stages += [str(stage) for lowered in (_product.lower(matrix, matrix, whole, target=target),
                                              _mixed.lower(whole, whole, 3, target=target))
                   for stage in lowered.stages.values()]
    return tuple(found + stages * (len(found) // len(stages)))


@xt.kernel
def _product(A: Any, B: Any, C: Any, *, K: int = 32) -> None:
    m, n = xt.group_id(0) * 32, xt.group_id(1) * 64
    a = xt.init_tile(A, (m, 0), (32, K), wg_map=xt.wg_map((2, 2), (16, K)))
    b = xt.init_tile(B, (0, n), (K, 64), wg_map=xt.wg_map((2, 2), (K, 32)))
    acc = xt.zeros((32, 64), xt.f32, wg_map=xt.wg_map((2, 2), (16, 32)))
    for _ in xt.range(0, A.shape[1], K):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
    acc = xt.exp(acc) * xt.where(acc > 0.0, 1.0, 0.5)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (32, 64), wg_map=xt.wg_map((2, 2), (16, 32))))


@xt.kernel
def _mixed(A: Any, B: Any, n: Any) -> None:
    shared = xt.alloc_slm((16, 32), xt.f32)
    a = xt.load_tile(xt.init_tile(A, (n, 0), (16, 32)), padding=1)
    xt.store_tile(a, xt.init_tile(shared, (0, 0), (16, 32)))
    xt.barrier()
    a = xt.load_tile(xt.init_tile(shared, (0, 0), (16, 32)))
    with xt.when(n > 3):
        a = a + xt.tile_reduce("add", a, axis=1)
    with xt.otherwise():
        a = xt.where(a > 2.0, a, -a).to(xt.bf16).to(xt.f32)
    xt.store_tile(a, xt.init_tile(B, (0, n), (16, 32)))


def mutated(seed: int) -> str:
    """The mutated text of a seed."""
    rng = random.Random(seed)
    tokens: list[str] = _TOKEN.findall(rng.choice(texts()))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        words = [i for i, token in enumerate(tokens) if not token.isspace()]
        if not words:
            break
        _mutate(rng, tokens, words)
    return "".join(tokens)


def _mutate(rng: random.Random, tokens: list[str], words: list[int]) -> None:
    at, other = rng.choice(words), rng.choice(words)
    kind = rng.randrange(11)
    if kind == 0:
        del tokens[at]
    elif kind == 1:
        tokens.insert(at, tokens[at])
    elif kind == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind == 3:
        tokens[at] = tokens[other]
    elif kind in (4, 5, 6):
        numbers = [i for i in words if tokens[i][0].isdigit()]
        at = rng.choice(numbers) if numbers else at
        if "x" in tokens[at]:  # the dimensions of a type
            parts = tokens[at].split("x")
            parts[rng.randrange(len(parts))] = rng.choice(_NUMBERS)
            tokens[at] = "x".join(parts)
        else:
            tokens[at] = rng.choice(_NUMBERS)
    elif kind == 7:
        tokens[at] = rng.choice(_WORDS)
    elif kind == 8:
        depth = rng.choice((2, 50, 3000))
        opened, closed = rng.choice((("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"), ("vector<", ">")))
        tokens[at] = opened * depth + tokens[at] + closed * rng.choice((depth, 0))
    elif kind == 9:
        del tokens[at:]
    else:
        names = [i for i in words if tokens[i].startswith("%")]
        if len(names) > 1:
            tokens[rng.choice(names)] = tokens[rng.choice(names)]


def _spec(type_: Any) -> Any:
    """An argument of a type, as ``lower`` takes it."""
    if not isinstance(type_, MemRefType):
        dtype = of_mlir(type_)
        return 3 if dtype is index else dtype.numpy.type(3)
    shape, strides = static_form(type_) or ((None if size < 0 else size for size in type_.get_shape()), None)
    return xt.Spec(tuple(shape), of_mlir(type_.element_type), strides and tuple(strides))


def treat(text: str, target: str) -> str:
    """Read and lower a text: "lowered", or the code of the error that refuses it."""
    try:
        module = xt.parse(text)
        target = asked[1] if (asked := _TARGET.search(text)) else target
        for name in module:
            kernel = module[name]
            if any(not isinstance(argument.type, (MemRefType, IndexType, IntegerType, AnyFloat))
                   for argument in kernel._function.body.block.args):
                continue
            specs = [_spec(argument.type) for argument in kernel._function.body.block.args]
            str(kernel.lower(*specs, target=target).opencl)
    except xt.XeError as error:
        return error.code
    return "lowered"


def outcome(seed: int) -> str:
    """Outcome of the mutation of a seed; a traceback of anything but an XeError."""
    def stop(*_: object) -> None:
        raise Overrun

    text = mutated(seed)
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        return treat(text, TARGETS[seed % len(TARGETS)])
    except Overrun:
        return f"failed: more than {SECONDS} s\n{traceback.format_exc(limit=-12)}"
    except BaseException:
        return f"failed: {traceback.format_exc(limit=-8)}"
    finally:
        signal.alarm(0)


def _work(seeds: Iterator[int], results: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for seed in seeds:
        results.send((seed, None))
        results.send((seed, outcome(seed)))


def run(seconds: float, seed: int) -> list[int]:
    """Treat mutations for a time, in a process that is started anew when it dies; the seeds that failed."""
    end, failed, tally, kinds = time.monotonic() + seconds, [], Counter[str](), Counter[str]()
    context = multiprocessing.get_context("fork")
    texts()
    while time.monotonic() < end:
        receiver, sender = context.Pipe(False)
        worker = context.Process(target=_work, args=(iter(range(seed, seed + 400)), sender), daemon=True)
        worker.start()
        sender.close()
        last, stop, open_ = seed, seed + 400, False
        while True:
            try:
                answered = receiver.poll(2 * SECONDS)
                last, found = receiver.recv() if answered else (last, f"failed: no answer in {2 * SECONDS} s")
            except EOFError:
                break
            if found is None:
                open_ = True
                continue
            open_ = False
            tally[found.split()[0].rstrip(":")] += 1
            if found.startswith("failed"):
                failed.append(last)
                key = found.strip().splitlines()[-1][:100]
                kinds[key] += 1
                if kinds[key] == 1:
                    print(f"--- seed {last}: {found}", flush=True)
            if not answered or time.monotonic() > end:
                stop = last + 1
                break
            if last + 1 == stop:
                break
        worker.join(0.1)
        if open_ and worker.exitcode not in (None, 0):
            failed.append(last)
            print(f"--- seed {last}: the process ended with {worker.exitcode}", flush=True)
        worker.kill()
        worker.join()
        seed = last + 1
    print(f"{sum(tally.values())} texts, {tally['lowered']} lowered, {len(failed)} failed, up to seed {seed - 1}")
    for key, count in kinds.most_common():
        print(f"{count:6} {key}")
    return failed
